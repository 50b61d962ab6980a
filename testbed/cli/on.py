"""`giveway on HOST COMMAND…`: a command of giveway on another machine, the results here."""

import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from basics.errors import BadInput, CannotRun
from testbed import engines
from testbed.cli.sweep import INTERRUPTED

if TYPE_CHECKING:
    from testbed.remote.checkout import Checkout
    from testbed.remote.far_machine import Far

RUNS = Path("runs")
MAKE_RESULTS = ("run", "sweep", "reproduce")
LOOK = ("doctor", "list", "clean")
REFUSED = {
    "report": "results are brought home: `giveway report` works on them here",
    "agree": "results are brought home: `giveway agree` works on them here",
    "export": "results are brought home: `giveway export` works on them here",
    "compare": "results are brought home: `giveway compare` works on them here",
    "lab": "it needs no other machine: `giveway lab` works here",
    "build-kernel": "use a clone there, and `make virtual`",
    "profile": "it needs torch, which is not set up there: use a clone there",
    "on": "one machine at a time; a jump host belongs in ~/.ssh/config (ProxyJump)",
}
ParsedOptions = dict[str, Any]


def add_to(app: typer.Typer, console: Console) -> None:
    @app.command(
        context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False}
    )
    def on(
        host: Annotated[str, typer.Argument(help="what `ssh` knows, or user@host:port")],
        command: Annotated[
            list[str], typer.Argument(help="a command of giveway, with its options")
        ],
    ) -> None:
        """Run a command on another machine, and bring results home.

        Example: giveway on student@lab7 run experiments/quickstart.yaml
        """
        options = understood(app, command)
        from testbed.remote import checkout
        from testbed.remote.far_machine import Far  # fabric, only here

        shipped = checkout.here(Path.cwd())
        argv = [command[0], *for_there(command[1:], options, shipped)]
        try:
            with Far(host, say) as far:
                code = run_there(console, far, shipped, argv, options)
        except KeyboardInterrupt:
            print("giveway: interrupted", file=sys.stderr)
            raise typer.Exit(INTERRUPTED) from None
        raise typer.Exit(code)


def say(text: str) -> None:
    """About the way there and back: not on standard output, which is the command's."""
    print(f"on: {text}", file=sys.stderr, flush=True)


def understood(app: typer.Typer, command: list[str]) -> ParsedOptions:
    """The command's options, read as the command itself would; mistakes are said before we go."""
    name, *arguments = command
    if name in REFUSED:
        raise BadInput(f"on: {name}: {REFUSED[name]}")
    if name not in (*MAKE_RESULTS, *LOOK):
        raise BadInput(f"on: {name}: unknown; known are {', '.join((*MAKE_RESULTS, *LOOK))}")
    group: Any = typer.main.get_command(app)
    with group.commands[name].make_context(f"giveway {name}", list(arguments)) as context:
        options: ParsedOptions = context.params
    if options.get("write_docs"):
        raise BadInput("on: --write-docs: the page would be written there; run it here")
    if options.get("json_") or options.get("junit"):
        raise BadInput(
            "on: --json, --junit: are made here, of what came back: `giveway report runs/NAME`"
        )
    if options.get("policies") or options.get("topologies"):
        raise BadInput("on: --policies, --topologies: a clone is shipped: put the files into it")
    if options.get("join"):
        raise BadInput("on: --join: results are brought home: `giveway sweep --join` works here")
    if options.get("dask"):
        raise BadInput("on: --dask: workers are found from here: use it without `giveway on`")
    out = options.get("out")
    if out is not None and (out.is_absolute() or ".." in out.parts or out.parts[:1] != RUNS.parts):
        raise BadInput(f"on: --out {out}: results come from runs/ there to runs/ here: runs/NAME")
    if out is not None and out == RUNS:
        raise BadInput(f"on: --out {out}: needs a name: runs/NAME")
    if options.get("engine") is not None:
        engines.resolve(options["engine"])
    return options


def for_there(arguments: list[str], options: ParsedOptions, checkout: "Checkout") -> list[str]:
    """The arguments with the experiment file's name as it is in the checkout."""
    if "file" not in options:
        return arguments
    file: Path = options["file"]
    name = checkout.inside(file)
    return [name if Path(argument) == file else argument for argument in arguments]


def run_there(
    console: Console, far: "Far", checkout: "Checkout", argv: list[str], options: ParsedOptions
) -> int:
    place = far.ship(checkout)
    far.set_up(place, checkout)
    root = as_root(far, place, argv[0], options)
    program = ["env", *appearance(console), ".venv/bin/python", "-m", "testbed", *argv]
    if argv[0] not in MAKE_RESULTS:
        return far.run(place, program, root=root, alone=False)
    mark = far.mark(place)
    code = far.run(place, program, root=root, alone=True)
    made = far.made_since(place, mark)
    for path in far.fetch(place, made, RUNS) if made else ():
        report = path / "report.html"
        line = f"report: {report}" if report.exists() else f"results: {path}"
        console.print(line, markup=False, highlight=False, soft_wrap=True)
    return code


def as_root(far: "Far", place: str, name: str, options: ParsedOptions) -> bool:
    """Whether to go through sudo: the realtime engine and `clean` need it, `doctor` sees more."""
    if not wants_root(name, options, lambda: auto_engine(far, place)):
        return False
    if far.ask('test "$(id -u)" = 0')[0] == 0:
        return False
    if far.ask("sudo -n true")[0] == 0:
        return True
    if name == "doctor":
        say(f"not root on {far.host}, and sudo asks for a password there: doctor sees less")
        return False
    raise CannotRun(
        f"{far.host}: this needs root there: log in as root, or let sudo ask for no password, "
        "or take --engine fluid"
    )


def wants_root(name: str, options: ParsedOptions, auto: Any) -> bool:
    if name in ("doctor", "clean"):
        return True
    if name == "list":
        return False
    engine = options.get("engine")
    if options.get("hosts") == "docker" and engine == engines.AUTO:
        return True
    return (auto() if engine == engines.AUTO else engine) == "realtime"


def auto_engine(far: "Far", place: str) -> str:
    """What `--engine auto` means there."""
    code = "from testbed import engines; print('engine', engines.resolve('auto'))"
    _, words = far.ask(f'cd "{place}" && .venv/bin/python -c "{code}"')
    return words.strip().rpartition("engine ")[2]


def appearance(console: Console) -> list[str]:
    """Variables that make output there look as it would here: bars and colours, or plain lines."""
    size = shutil.get_terminal_size()
    here = {
        "PYTHONUTF8": "1",
        "PYTHONUNBUFFERED": "1",
        "TTY_COMPATIBLE": "1" if console.is_terminal else "0",
        "TERM": os.environ.get("TERM", "dumb"),
        "COLUMNS": str(size.columns),
        "LINES": str(size.lines),
    }
    return [f"{name}={value}" for name, value in here.items()]
