"""Policies and topologies of the user's own, in folders anywhere: `--policies`, `--topologies`.

A folder is put behind the package that ships the others, so that its files are found, listed and
imported as those are, in this process and in all that it starts: they read the environment. The
guest of the virtual engine cannot see every folder of the machine and gets copies.
"""

import importlib
import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType

from basics.errors import BadInput
from basics.files import writing

POLICIES, TOPOLOGIES = "GIVEWAY_POLICIES", "GIVEWAY_TOPOLOGIES"
KINDS = ("link", "transfer", "cluster")  # of policies, each a folder; without, all are link's
LISTS = {  # what keeps what it has found, and where
    "policies.link": ("link_policies", "POLICY"),
    "policies.transfer": ("transfer_policies", "POLICY"),
    "policies.cluster": ("schedulers", "SCHEDULER"),
    "topologies": ("available", "KIND"),
}


def named() -> dict[str, str]:
    """The variables that are set, for processes that do not inherit the environment."""
    return {name: os.environ[name] for name in (POLICIES, TOPOLOGIES) if os.environ.get(name)}


def join() -> None:
    """Put the folders that the environment names behind our own."""
    for variable, folder in named().items():
        for package, place in _places(variable, Path(folder)):
            module = importlib.import_module(package)
            if str(place) not in module.__path__:
                module.__path__.append(str(place))


def adopt(option: str, variable: str, folder: Path) -> None:
    """Use a folder from now on; whatever is wrong with it is said in one line."""
    folder = folder.absolute()
    if not folder.is_dir():
        raise BadInput(f"{option} {folder}: not a folder; give one with files that end in .py")
    places = list(_places(variable, folder))
    files = {package: sorted(place.glob("[!_.]*.py")) for package, place in places}
    if not any(files.values()):
        raise BadInput(f"{option} {folder}: has no file that ends in .py")
    for package, place in places:  # a process that was started with it has joined it already
        _without(package, place)
    shipped = {package: _found(package) for package in files}
    os.environ[variable] = str(folder)
    join()
    for package, paths in files.items():
        for path in paths:
            _demand_new(option, package, path, shipped[package])
        getattr(importlib.import_module(package), LISTS[package][0]).cache_clear()


def _places(variable: str, folder: Path) -> Iterator[tuple[str, Path]]:
    """(a package of ours, the folder whose files join it)."""
    if variable == TOPOLOGIES:
        yield "topologies", folder
        return
    inside = [kind for kind in KINDS if (folder / kind).is_dir()]
    for kind in inside:
        yield f"policies.{kind}", folder / kind
    if not inside:
        yield "policies.link", folder


def _without(package: str, place: Path) -> None:
    module = importlib.import_module(package)
    if str(place) in module.__path__:
        module.__path__.remove(str(place))
    getattr(module, LISTS[package][0]).cache_clear()


def _found(package: str) -> Mapping[str, object]:
    names: Mapping[str, object] = getattr(importlib.import_module(package), LISTS[package][0])()
    return dict(names)


def _demand_new(option: str, package: str, path: Path, shipped: Mapping[str, object]) -> None:
    module = _loaded(option, package, path)
    wanted = LISTS[package][1]
    entry = getattr(module, wanted, None)
    if entry is None:
        raise BadInput(f"{option}: {path}: does not end with {wanted} = …: CONTRIBUTING.md has one")
    name = getattr(entry, "name", path.stem.replace("_", "-"))
    if name in shipped:
        raise BadInput(f"{option}: {path}: {name} is the name of one that ships: choose another")


def _loaded(option: str, package: str, path: Path) -> ModuleType:
    try:
        module = importlib.import_module(f"{package}.{path.stem}")
    except Exception as error:  # whatever somebody's own code does when it is loaded
        where = f", line {error.lineno}" if isinstance(error, SyntaxError) else ""
        first = (str(error).splitlines() or [""])[0]
        raise BadInput(
            f"{option}: {path}{where}: cannot be loaded: {type(error).__name__}: {first}"
        ) from None
    if Path(str(module.__file__)).resolve() != path.resolve():
        raise BadInput(f"{option}: {path}: a file of this name ships with Giveway: rename it")
    return module


def copied(folder: Path) -> dict[str, str]:
    """Copy the folders into a run's folder: the names of the copies, by variable."""
    copies = {}
    for variable, source in named().items():
        name = f"own-{variable.removeprefix('GIVEWAY_').lower()}"
        with writing(folder / name):
            shutil.copytree(
                source, folder / name, ignore=shutil.ignore_patterns("__pycache__", ".*"),
                dirs_exist_ok=True,
            )  # fmt: skip
        copies[variable] = name
    return copies


def forget(folder: Path, copies: Mapping[str, str]) -> None:
    for name in copies.values():
        shutil.rmtree(folder / name, ignore_errors=True)
