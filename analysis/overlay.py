"""Training stacks in one picture: what a host of each has sent since an iteration began."""

import numpy as np

from analysis.folder import Job, Results, SealedRun
from analysis.look import DASHES, Picture, colour, new_figure, picture, styled
from analysis.metrics import Floats
from analysis.window import iterations_in_window

ITERATIONS = 2


@styled
def sent_by_stack(results: Results) -> list[Picture]:
    """One panel a policy, first seed: one line a job, from its first measured iteration on."""
    plan = results.plan
    if len({job.backend for job in plan.jobs}) < 2:
        return []
    panels = []
    for number, policy in enumerate(plan.policies):
        run = results.of(policy.label)[0]
        figure, axes = new_figure(2.5)
        said = []
        for at, job in enumerate(plan.jobs):
            line = sent_since_start(run, job, plan.window_ns)
            if line is None:
                continue
            times_ns, sent_byte = line
            axes.plot(
                times_ns / 1e6,
                sent_byte / 1e6,
                color=colour(f"policy-{1 + at % 5}"),
                linestyle=DASHES[at % len(DASHES)],
                label=job.backend,
            )
            said.append(
                f"{job.backend} {sent_byte[-1] / 1e6:.1f} MB in {times_ns[-1] / 1e6:.0f} ms"
            )
        axes.set_xlabel(f"time since an iteration began, {ITERATIONS} iterations (ms)")
        axes.set_ylabel("a host has sent (MB)")
        axes.set_title(policy.title)
        axes.legend()
        alt = f"What a host has sent since an iteration began, by stack: {', '.join(said)}."
        panels.append(picture(figure, f"stacks-{number}", alt))
    return panels


def sent_since_start(
    run: SealedRun, job: Job, window_ns: tuple[int, int]
) -> tuple[Floats, Floats] | None:
    """Times and bytes, both from zero, as the ports of the job's hosts counted them."""
    whole = iterations_in_window(run.table("iterations"), job, window_ns)
    links = run.table("links")
    ours = links[links["link"].str.partition("->")[0].isin(job.hosts)]
    if whole.empty or ours.empty:
        return None
    begin_ns = int(whole["start_ns"].min())
    ends_ns = whole.groupby("iteration")["end_ns"].max().sort_values()
    end_ns = int(ends_ns.iloc[min(ITERATIONS, len(ends_ns)) - 1])
    # Every port is read at an instant of its own.
    ports = [port.groupby("time_ns")["bytes"].sum() for _, port in ours.groupby("link")]
    read_ns = ports[0].index
    between = read_ns[(read_ns > begin_ns) & (read_ns < end_ns)]
    times_ns = np.array([begin_ns, *between, end_ns], dtype=float)
    sent_byte = np.mean(
        [np.interp(times_ns, port.index.to_numpy(float), port.to_numpy(float)) for port in ports],
        axis=0,
    )
    return times_ns - begin_ns, sent_byte - sent_byte[0]
