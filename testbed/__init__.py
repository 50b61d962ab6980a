"""How an experiment is run: its file, the engines, the live network, the run folder, the CLI."""

from testbed import own_files

__version__ = "0.1.0"

own_files.join()  # in every process that plays a part of a run
