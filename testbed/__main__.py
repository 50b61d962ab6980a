"""`python -m testbed` is `giveway`."""

from testbed.cli import main

if __name__ == "__main__":  # helper processes (testbed/pool.py) import this module too
    main()
