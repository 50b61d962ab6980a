"""The command line. `commands.py` has all commands; the longer ones have a file each."""
