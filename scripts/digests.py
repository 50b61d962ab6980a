#!/usr/bin/env python3
"""What the simulation says of every shipped experiment, as digests: to hold a change against.

    scripts/digests.py [CHECKOUT] > before      (default: this checkout; its own .venv is used)

A change that should not move a single record leaves the table as it was. Sweeps take the first seed
of every point. Files that only a kernel can play are left out.
"""

import hashlib
import json
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import yaml


def main(checkout: Path) -> None:
    for file in sorted((checkout / "experiments").glob("*.yaml")):
        content = yaml.safe_load(file.read_text())
        verb = "sweep" if "sweep" in content else "run"
        with TemporaryDirectory(prefix="giveway-digests-") as place:
            out = Path(place) / "out"
            command = [str(checkout / ".venv/bin/giveway"), verb, str(file), "--engine", "fluid"]
            command += ["--out", str(out)]
            if verb == "sweep":
                command += ["--set", f"seeds=[{content['seeds'][0]}]"]
            done = subprocess.run(command, cwd=checkout, capture_output=True, text=True)
            found = sorted(out.rglob("manifest.json"))
            if not found:
                reason = (done.stderr or done.stdout).strip().splitlines()[-1:]
                print(f"{file.name:32} not simulated: {' '.join(reason)[:60]}", flush=True)
                continue
            lines = [
                f"{path.parent.relative_to(out)} {json.loads(path.read_text())['digest']}"
                for path in found
            ]
            digest = hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]
            print(f"{file.name:32} {len(found):4} runs  {digest}", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve() if sys.argv[1:] else Path(__file__).resolve().parents[1])
