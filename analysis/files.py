"""Files that are there whole or not at all."""

import os
from pathlib import Path

from testbed.errors import RunFailed


def write_whole(path: Path, text: str) -> Path:
    """Write beside and rename, so that a reader sees the old file or the new one, never half."""
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with beside.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    except OSError as problem:
        beside.unlink(missing_ok=True)
        raise RunFailed(
            f"{path}: cannot be written ({problem.strerror or problem}). "
            f"Make room or check the rights, then: giveway report {path.parent}"
        ) from problem
    return path
