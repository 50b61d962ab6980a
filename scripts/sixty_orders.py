"""Tiresias's 60 jobs in another order, or ours that come as evenly: a plain trace, printed.

.venv/bin/python -m scripts.sixty_orders TRACE order 0 > FILE.csv

`order`: the trace's own jobs at the trace's own times, which job when drawn from the seed.
`even`: the jobs of experiments/tiresias-60.yaml in a drawn order, apart as the trace's are.
"""

import csv
import sys
from pathlib import Path

import numpy as np

HEAD = "submitted_s,duration_s,tasks,gpu,gang"
OURS = ((1, 30, 121, 318), (2, 10, 121, 136), (4, 10, 121, 139), (8, 10, 121, 186))
APART_S, GIVE_OR_TAKE_S = 30.15, 5.2  # mean and deviation of the trace's


def main(trace: str, kind: str, seed: int) -> None:
    generator = np.random.default_rng(seed)
    if kind == "order":
        rows = list(csv.DictReader(Path(trace).read_text().splitlines()))
        jobs = [(int(row["num_gpu"]), float(row["duration"])) for row in rows]
        times = [float(row["submit_time"]) for row in rows]
    else:
        jobs = [
            (gpus, generator.uniform(shortest, longest))
            for gpus, count, shortest, longest in OURS
            for _ in range(count)
        ]
        times = list(generator.normal(APART_S, GIVE_OR_TAKE_S, len(jobs)).cumsum())
    print(HEAD)
    for time, at in zip(times, generator.permutation(len(jobs)), strict=True):
        print(f"{time:.3f},{jobs[at][1]:.3f},{jobs[at][0]},1,1")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
