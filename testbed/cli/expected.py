"""`--expect`: the records that a run must have, by their digest or by an earlier run's folder."""

import re
from dataclasses import dataclass
from pathlib import Path

from basics import units
from basics.errors import BadInput

LEAST_DIGITS = 8  # of a digest: fewer could agree by chance


@dataclass(frozen=True)
class Expected:
    """What was given: the first digits of a digest, or a folder that holds the same runs."""

    given: str
    folder: Path | None = None

    @staticmethod
    def read(given: str | None) -> "Expected | None":
        if given is None:
            return None
        if re.fullmatch(f"[0-9a-f]{{{LEAST_DIGITS},64}}", given):
            return Expected(given)
        try:
            if (Path(given) / "plan.json").is_file():
                return Expected(given, Path(given))
        except (OSError, ValueError):
            pass
        raise BadInput(
            f"--expect {units.shown(given)}: a digest is 64 digits 0-9a-f, as a run prints it at "
            f"its end; its first {LEAST_DIGITS} will do, or the folder of an earlier run"
        )

    def complaints(self, out: Path, digest: str) -> list[str]:
        """What is not as expected; with a folder to compare with, where that begins."""
        if self.folder is None:
            if digest.startswith(self.given):
                return []
            return [
                f"other records than expected: the digest is not {self.given} (--expect with the "
                "folder of the earlier run would say where they begin to differ)"
            ]
        from analysis import first_difference
        from analysis.folder import load

        earlier, now = load(self.folder), load(out)
        said = []
        for at, run in now.runs.items():
            who, twin = f"{at[0]}, seed {at[1]}", earlier.runs.get(at)
            if twin is None:
                said.append(f"{self.folder} has no run {who}")
            elif twin.manifest.get("digest") != run.manifest.get("digest"):
                said.append(str(first_difference.in_runs(twin, run) or f"{who}: another digest"))
        return [f"other records than expected: {one}" for one in said]
