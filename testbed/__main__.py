"""`python -m testbed` is `giveway`."""

from testbed.cli import main

main()
