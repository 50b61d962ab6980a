"""How an experiment is run: its file, the engines, the live network, the run folder, the CLI."""

__version__ = "0.1.0"
