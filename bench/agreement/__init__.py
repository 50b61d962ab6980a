"""How far the fluid engine is from the virtual one, cell by cell: `python -m bench.agreement`."""
