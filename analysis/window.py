"""What of the records counts: flows and iterations of the measured window.

Flow completion time (FCT) is from connect() to the receiver having the last byte. Flows belong
to the measured window by the time that the schedule gave them, so that the same flows count
under every policy.
"""

from collections.abc import Iterable, Mapping

import numpy as np
import pandas as pd

from analysis.folder import Job, MixClasses
from analysis.ideal import ideal_fct_ns
from analysis.metrics import ALL


def flows_in_window(
    flows: pd.DataFrame,
    window_ns: tuple[int, int],
    mixes: Iterable[MixClasses],
    rates_bps: Mapping[str, float],
    delays_ns: Mapping[str, float],
) -> pd.DataFrame:
    """Flows scheduled in the window, with fct_ns (NaN: unfinished), size_class and slowdown.

    fct_sender_ns is until the sender had the last acknowledgement, if the flows say so (acked_ns).
    slowdown is the FCT over what the flow would take with the network to itself
    (analysis/ideal.py).
    """
    begin, end = window_ns
    chosen = flows[(flows["scheduled_ns"] >= begin) & (flows["scheduled_ns"] < end)].copy()
    size = chosen["size_byte"].to_numpy(dtype=float)
    mixes = list(mixes)
    small_max = chosen["mix"].map({mix.name: mix.small_max_byte for mix in mixes}).to_numpy(float)
    large_min = chosen["mix"].map({mix.name: mix.large_min_byte for mix in mixes}).to_numpy(float)
    chosen["size_class"] = np.where(
        size <= small_max, "small", np.where(size >= large_min, "large", "medium")
    )
    chosen["fct_ns"] = chosen["end_ns"].astype(float) - chosen["start_ns"].astype(float)
    acked_ns = chosen.get("acked_ns", pd.Series(np.nan, chosen.index))
    chosen["fct_sender_ns"] = acked_ns.astype(float) - chosen["start_ns"].astype(float)
    ideal_ns = ideal_fct_ns(chosen, rates_bps, delays_ns)
    with np.errstate(divide="ignore", invalid="ignore"):
        slowdown = chosen["fct_ns"].to_numpy(dtype=float) / ideal_ns
    chosen["slowdown"] = np.where(ideal_ns > 0, slowdown, np.nan)
    return chosen


def of_class(flows: pd.DataFrame, size_class: str) -> pd.DataFrame:
    return flows if size_class == ALL else flows[flows["size_class"] == size_class]


def iterations_in_window(
    iterations: pd.DataFrame, job: Job, window_ns: tuple[int, int]
) -> pd.DataFrame:
    """Rows (worker and iteration) of a job that lie in the window whole.

    With duration_ns, and with planned_ns: what compute alone takes by the plan; where there are
    servers, with serial_ns and longest_ns: compute, pushes and reads one after another, and the
    longest of them.
    """
    begin, end = window_ns
    chosen = iterations[
        (iterations["job"] == job.name)
        & (iterations["start_ns"] >= begin)
        & (iterations["end_ns"] <= end)
    ].copy()
    chosen["duration_ns"] = chosen["end_ns"].astype(float) - chosen["start_ns"].astype(float)
    chosen["planned_ns"] = float(job.compute_ns)
    work_ns = (job.compute_ns, *job.moves_ns)
    chosen["serial_ns"] = sum(work_ns) if job.moves_ns else float("nan")
    chosen["longest_ns"] = max(work_ns) if job.moves_ns else float("nan")
    return chosen


def goodputs(
    flows: pd.DataFrame, unfinished: pd.DataFrame, window_ns: tuple[int, int], end_ns: int
) -> pd.Series:
    """What receivers of each mix got in the window, in bit/s.

    Bytes of a flow count evenly over its life, which ends with the run if the flow does not: as
    much of them as of its life lies in the window.
    """
    begin, end = window_ns
    got = flows["flow"].map(unfinished.set_index("flow")["received_byte"]).fillna(0)
    byte = flows["size_byte"].where(flows["end_ns"].notna(), got).to_numpy(float)
    born = flows["start_ns"].to_numpy(float, na_value=np.inf)
    gone = flows["end_ns"].to_numpy(float, na_value=end_ns)
    inside = np.clip(np.minimum(gone, end) - np.maximum(born, begin), 0.0, None)
    life = np.maximum(gone - born, 1.0)
    return pd.Series(byte * inside / life * 8e9 / (end - begin)).groupby(flows["mix"].array).sum()
