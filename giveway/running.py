"""Experiments as mappings, and the command that runs them."""

import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from giveway.launch import HOME
from giveway.loaded import CommandFailed, LoadedFolder, load

PATHS = ("schedule", "trace")  # keys whose values are files, looked for beside the experiment's
DONE, CLAIM_FAILS = 0, 1


def experiment(name: str | Path) -> dict[str, Any]:
    """An experiment file as a mapping to be changed: one of yours, or one that ships."""
    import yaml

    candidates = (Path(name), HOME / name, HOME / "experiments" / f"{name}.yaml")
    path = next((one for one in candidates if one.is_file()), None)
    if path is None:
        raise CommandFailed(f"{name}: no such file, and no experiment that ships", 2)
    content: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
    _make_absolute(content, path.resolve().parent)
    return content


def _make_absolute(value: Any, folder: Path) -> None:
    """The mapping may be run from anywhere."""
    for inside in value.values() if isinstance(value, dict) else value:
        if isinstance(inside, dict | list):
            _make_absolute(inside, folder)
    if isinstance(value, dict):
        value.update({key: str(folder / value[key]) for key in PATHS if key in value})


def policy(name: str, *, label: str | None = None, **options: Any) -> dict[str, Any]:
    """An entry of an experiment's `policies`: `policy("htb-priority", high=0.6, low=0.4)`."""
    return {"policy": name, **({} if label is None else {"label": label}), **options}


def run(
    asked: Mapping[str, Any] | str | Path,
    *,
    engine: str = "auto",
    out: str | Path | None = None,
    seeds: Sequence[int] = (),
    settings: Mapping[str, Any] | None = None,
    policies: str | Path | None = None,
    topologies: str | Path | None = None,
    show: bool = False,
) -> LoadedFolder:
    """Run an experiment (a mapping, a file, or the name of one that ships) and load its results.

    `settings` are keys to change, as `--set` does; `policies` and `topologies` folders of your own;
    `show` lets progress through to standard error. A claim that fails is in `.claims`; whatever
    else goes wrong raises CommandFailed, with the line that the command would have said.
    """
    words = ["--engine", engine, "--json"]
    words += [word for seed in seeds for word in ("--seed", str(seed))]
    for option, value in (("--out", out), ("--policies", policies), ("--topologies", topologies)):
        words += [] if value is None else [option, str(value)]
    for key, value in (settings or {}).items():
        words += ["--set", f"{key}={value if isinstance(value, str) else json.dumps(value)}"]
    if not isinstance(asked, Mapping):
        return _loaded(command("run", str(asked), *words, show=show))
    import yaml

    with tempfile.TemporaryDirectory(prefix="giveway-") as folder:
        file = Path(folder) / "experiment.yaml"
        file.write_text(yaml.safe_dump(dict(asked), sort_keys=False), encoding="utf-8")
        return _loaded(command("run", str(file), *words, show=show))


def _loaded(document: dict[str, Any]) -> LoadedFolder:
    return load(document["folder"])


def command(*words: str, show: bool = False) -> dict[str, Any]:
    """What a command of giveway says to programs (docs/ci.md); it must have been asked for JSON."""
    done = subprocess.run(
        # -P: a folder of the user's called `giveway` is not ours
        [sys.executable, "-P", "-m", "giveway", *words],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=None if show else subprocess.PIPE,
        text=True, encoding="utf-8", check=False,
    )  # fmt: skip
    if done.returncode not in (DONE, CLAIM_FAILS):
        said = [line for line in (done.stderr or "").splitlines() if line.startswith("giveway: ")]
        why = "\n".join(line.removeprefix("giveway: ") for line in said)
        raise CommandFailed(why or f"exit code {done.returncode}", done.returncode)
    document: dict[str, Any] = json.loads(done.stdout)
    return document
