"""Where Giveway's folders are, and the command that has them on its path.

In a clone they lie beside this package, in an installation below it, in `home`. Only the process of
the command, and those that it starts, look there: whoever imports `giveway` gets no other module.
"""

import os
import sys
from pathlib import Path

HERE = Path(__file__).parent
HOME = HERE / "home" if (HERE / "home").is_dir() else HERE.parent


def main() -> None:
    """The command `giveway`."""
    use_home()
    from testbed.__main__ import main as command

    command()


def use_home() -> None:
    """Let this process, and those that it starts, find our folders."""
    if str(HOME) in sys.path:
        return
    sys.path.insert(0, str(HOME))
    others = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join([str(HOME), *([others] if others else [])])
