"""One flow from inside: which one is drawn, what held it, and that the report shows it."""

from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from analysis import inside, report
from analysis.folder import load
from basics.records import TABLES
from tests import run_folders
from tests.run_folders import Folder

MSS = 1448


def samples(flow: int | None, window: int, cwnd: int, flight: int, unsent: int) -> pd.DataFrame:
    count = 20
    return pd.DataFrame(
        {
            "time_ns": np.arange(count) * 100_000,
            "tenant": "web-search" if flow is not None else "resnet50",
            "flow": flow,
            "rank": None if flow is not None else 0,
            "to_rank": None if flow is not None else 1,
            "src": "h1",
            "dst": "h2",
            "acked_byte": np.arange(count) * 50 * MSS,
            "sacked_byte": 0,
            "in_flight_byte": flight,
            "unsent_byte": unsent,
            "cwnd_byte": cwnd,
            "window_byte": window,
            "srtt_ns": 300_000,
            "retransmits": 3,
            "pacing_bps": None,
        }
    )


def sampled(out: Path, rows: pd.DataFrame) -> Path:
    run_folders.write(out, Folder(seeds=(0,)))
    table = pa.Table.from_pandas(rows, TABLES["tcp"], preserve_index=False)
    for run in out.glob("*/seed-0"):
        pq.write_table(table, run / "tcp.parquet")
        run_folders.reseal(run)
    return out


def test_what_is_full_holds() -> None:
    full = {inside.WINDOW: 1.0}
    assert inside.holders(samples(0, 100_000, 200_000, 99_000, 1)) == full
    assert inside.holders(samples(0, 200_000, 100_000, 99_000, 1)) == {inside.CONGESTION: 1.0}
    assert inside.holders(samples(0, 200_000, 100_000, 50_000, 1)) == {inside.HOST: 1.0}
    assert inside.holders(samples(0, 200_000, 100_000, 50_000, 0)) == {inside.NOTHING: 1.0}


def test_a_rate_is_what_has_arrived_in_between() -> None:
    found = inside.rates(np.array([0.0, 100.0, 300.0]), np.array([0.0, 1000.0, 1000.0]))
    assert np.isnan(found[0])
    assert list(found[1:]) == [80e9, 0.0]


def test_the_largest_sampled_flow_is_drawn(tmp_path: Path) -> None:
    out = sampled(tmp_path, pd.concat([samples(number, 9, 9, 9, 9) for number in (3, 5, 8)]))
    run = load(out).of("fifo")[0]
    flows = run.table("flows").set_index("flow").loc[[3, 5, 8]]
    chosen = inside.largest(run)
    assert chosen is not None
    assert chosen.flow == flows["size_byte"].idxmax()
    assert len(chosen.rows(run.table("tcp"))) == 20


def test_without_flows_a_connection_of_training_is_drawn(tmp_path: Path) -> None:
    run = load(sampled(tmp_path, samples(None, 9, 9, 9, 9))).of("fifo")[0]
    assert inside.largest(run) == inside.SampledConnection("resnet50", None, 0, 1)


def test_the_report_shows_it_where_there_are_samples(tmp_path: Path) -> None:
    plain = report.write(run_folders.write(tmp_path / "plain", Folder(seeds=(0,)))).read_text()
    assert "One flow from inside" not in plain
    out = sampled(tmp_path / "sampled", samples(3, 100_000, 200_000, 99_000, 1))
    page = report.write(out).read_text()
    assert "One flow from inside" in page
    assert "Held by the receive window in 100" in page
    assert page.count('class="picture" role="img" aria-label="Flow 3 of web-search') == 2
