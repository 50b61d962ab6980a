"""Blocks of a page that a script writes: between <!-- NAME --> and <!-- /NAME -->."""

import re
from pathlib import Path


def write(page: Path, block: str, text: str) -> None:
    pattern = re.compile(rf"(<!-- {block} -->\n).*?(<!-- /{block} -->)", re.DOTALL)
    made, count = pattern.subn(lambda found: f"{found[1]}{text}\n{found[2]}", page.read_text())
    if count != 1:
        raise SystemExit(f"{page}: found {count} blocks <!-- {block} -->; there must be one")
    page.write_text(made)
