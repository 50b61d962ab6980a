"""The fluid engine. Its inner loops are compiled by numba, once, and kept in Giveway's cache.

numba looks only at a function's own file when it decides whether what it kept is still good; these
files call each other. So the cache's folder is named after all that are compiled, and after where
they are: what was compiled elsewhere, numba would not take.
"""

import hashlib
from pathlib import Path

import numba

from testbed import cache

COMPILED = b"\nimport numba", b"\nfrom numba", b"\nfrom testbed.fluid.inner"  # in such files


def _sources() -> str:
    digest = hashlib.sha256(f"{numba.__version__} {Path(__file__).parent}".encode())
    for path in sorted(Path(__file__).parent.glob("*.py")):
        source = path.read_bytes()
        if any(line in source for line in COMPILED):
            digest.update(source)
    return digest.hexdigest()[:12]


FOLDER = cache.made() / f"fluid-{_sources()}"
numba.config.CACHE_DIR = str(FOLDER)  # type: ignore[attr-defined]
