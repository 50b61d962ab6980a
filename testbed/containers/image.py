"""What the images of Docker hosts are made of: a digest tells whether one is still this code.

There are two: a small one for the native worker, and one with torch and Horovod, a gigabyte, that
an experiment takes only if a job of it needs them. `make image` and `make image-horovod` write the
digest into the image's label; a run refuses an image with another one, because its workers would
not be those that the manifest names. `python -m testbed.containers.image IMAGE`
prints it, and with a FOLDER also lays out the packages there for the build.
"""

import ast
import hashlib
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
INPUTS_LABEL = "giveway.inputs"
DOCKERFILE = "docker/worker.Dockerfile"
PACKAGES = ("basics", "policies", "testbed", "topologies", "workloads")
FIRST = "testbed/live/nursery.py"  # what a container starts; tasks are named by workloads' modules


@dataclass(frozen=True)
class Image:
    name: str
    target: str  # of make: what builds it
    recipes: tuple[str, ...] = ()  # what decides on its packages, besides the Dockerfile


NATIVE = Image("giveway-worker", "image")
HOROVOD = Image(
    "giveway-worker-horovod",
    "image-horovod",
    ("requirements-torch.txt", "requirements-horovod.txt", "workloads/horovod-patches/*.patch"),
)
IMAGES = {image.name: image for image in (NATIVE, HOROVOD)}


def inputs(image: Image = NATIVE) -> list[Path]:
    """The files that an image is made of, relative to the repository.

    All of workloads, and what it imports of the other packages; link and transfer policies, which
    workers find by name. A change that no worker can see does not make an image stale.
    """
    data = [path.relative_to(ROOT) for path in ROOT.glob("workloads/*/*.csv")]
    places = ("workloads/**/*.py", "policies/link/*.py", "policies/transfer/*.py")
    code = [path for place in places for path in ROOT.glob(place)]
    waiting = [path.relative_to(ROOT) for path in code] + [Path(FIRST)]
    found: set[Path] = set()
    while waiting:
        path = waiting.pop()
        if path not in found:
            found.add(path)
            waiting += imported(path)
    recipes = [path.relative_to(ROOT) for glob in image.recipes for path in ROOT.glob(glob)]
    return [Path(DOCKERFILE), *sorted(found), *sorted(data), *sorted(recipes)]


def imported(path: Path) -> Iterator[Path]:
    """The files of our packages that a file imports, and the packages they are in."""
    for node in executed(ast.parse((ROOT / path).read_text())):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        for name in names:
            parts = name.split(".")
            if parts[0] in PACKAGES:
                module = Path(*parts)
                candidates = [module.with_suffix(".py")]
                candidates += [folder / "__init__.py" for folder in (module, *module.parents)]
                yield from (found for found in candidates if (ROOT / found).is_file())


def executed(node: ast.AST) -> Iterator[ast.AST]:
    """All below a node, except what is there for type checkers only."""
    for child in ast.iter_child_nodes(node):
        if not (isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING"):
            yield child
            yield from executed(child)


def digest(image: Image = NATIVE) -> str:
    total = hashlib.sha256()
    for path in inputs(image):
        total.update(f"{path}\0".encode() + hashlib.sha256((ROOT / path).read_bytes()).digest())
    return total.hexdigest()[:16]


def lay_out(folder: Path) -> None:
    for path in inputs():
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / path, target)


if __name__ == "__main__":
    wanted = IMAGES[sys.argv[1]]
    if sys.argv[2:]:
        lay_out(Path(sys.argv[2]))
    print(digest(wanted))
