"""What the image of Docker hosts is made of: a digest tells whether it is still this code.

`make image` writes the digest into the image's label; a run refuses an image with another one,
because its workers would not be those that the manifest names. `python -m testbed.image` prints it,
`python -m testbed.image FOLDER` also lays out the packages there for the build.
"""

import hashlib
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
NAME = "giveway-worker"
INPUTS_LABEL = "giveway.inputs"
DOCKERFILE = "docker/worker.Dockerfile"
PACKAGES = ("policies", "testbed", "topologies", "workloads")
LEFT_OUT = ("testbed/virtual/",)  # the guest kernel has the host's files
KINDS = (".py", ".csv")


def inputs() -> Iterator[Path]:
    """The files that the image is made of, relative to the repository."""
    yield Path(DOCKERFILE)
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*")):
            inside = path.relative_to(ROOT)
            if path.suffix in KINDS and not str(inside).startswith(LEFT_OUT):
                yield inside


def digest() -> str:
    total = hashlib.sha256()
    for path in inputs():
        total.update(f"{path}\0".encode() + hashlib.sha256((ROOT / path).read_bytes()).digest())
    return total.hexdigest()[:16]


def lay_out(folder: Path) -> None:
    for path in inputs():
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / path, target)


if __name__ == "__main__":
    if sys.argv[1:]:
        lay_out(Path(sys.argv[1]))
    print(digest())
