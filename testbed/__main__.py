"""`python -m testbed` is `giveway`."""

from basics import command


def main() -> None:
    command.run(_commands)


def _commands() -> None:
    from testbed.cli.commands import app  # in here: imports take a second, and may be interrupted

    app()


if __name__ == "__main__":  # helper processes (testbed/pool.py) import this module too
    main()
