"""The record schema: the one thing that the testbed and the analysis share.

A run folder holds one Parquet table for each entry of TABLES. All times are integer
nanoseconds of experiment time (dilation already taken out), 0 is the start of the run.
"""

import pyarrow as pa

# Later than the first: in a folder that was sealed before there was such a table, it is empty.
NEW_TABLES = frozenset(
    {
        "jobs",
        "barriers",
        "unfinished",
        "submissions",
        "stretches",
        "acknowledged",
        "tcp",
        "checkpoints",
        "packs",
    }
)


def _table(**columns: pa.DataType) -> pa.Schema:
    return pa.schema(list(columns.items()))


TABLES: dict[str, pa.Schema] = {
    # One row a flow. scheduled_ns: when the schedule wanted it; start_ns: when connect() was
    # called; end_ns: when the receiver had the last byte. Null where that never happened.
    "flows": _table(
        flow=pa.int64(),
        mix=pa.string(),
        src=pa.string(),
        dst=pa.string(),
        size_byte=pa.int64(),
        priority=pa.int8(),
        scheduled_ns=pa.int64(),
        start_ns=pa.int64(),
        end_ns=pa.int64(),
    ),
    # One row a flow that was under way when the run ended: what its receiver had by then.
    "unfinished": _table(flow=pa.int64(), received_byte=pa.int64()),
    # One row a flow whose last acknowledgement the sender had before the run ended, and when. Not
    # in the digest of a run: it says of the same bytes how they were heard of.
    "acknowledged": _table(flow=pa.int64(), acked_ns=pa.int64()),
    # One row a worker and iteration; end_ns is the start of the next one.
    # wait_ns = end - start - compute: what communication cost this worker.
    "iterations": _table(
        job=pa.string(),
        worker=pa.int32(),
        iteration=pa.int32(),
        start_ns=pa.int64(),
        end_ns=pa.int64(),
        compute_ns=pa.int64(),
        wait_ns=pa.int64(),
    ),
    # One row a worker and layer: when its compute really ran. Feeds the timeline and the
    # lateness of sleeps (late_ns: by how much the sleep overshot).
    "computes": _table(
        job=pa.string(),
        worker=pa.int32(),
        iteration=pa.int32(),
        phase=pa.string(),
        layer=pa.int32(),
        start_ns=pa.int64(),
        end_ns=pa.int64(),
        late_ns=pa.int64(),
    ),
    # One row a worker and transfer (a fused all-reduce). ready_ns: its last gradient was ready
    # on this worker; needed_ns: the next forward pass first wanted it (null if never).
    "transfers": _table(
        job=pa.string(),
        worker=pa.int32(),
        iteration=pa.int32(),
        transfer=pa.int32(),
        first_layer=pa.int32(),
        layers=pa.int32(),
        bytes=pa.int64(),
        priority=pa.int8(),
        ready_ns=pa.int64(),
        start_ns=pa.int64(),
        end_ns=pa.int64(),
        needed_ns=pa.int64(),
    ),
    # Counters of each queue class at each port, cumulative since the start of the run.
    # link is "h1->s1"; class is "all" for a policy with one queue, else the band's name.
    # "class" is a Python keyword, hence the dictionary.
    "links": _table(
        **{
            "time_ns": pa.int64(),
            "link": pa.string(),
            "class": pa.string(),
            "bytes": pa.int64(),
            "drops": pa.int64(),
        }
    ),
    # What TCP knew of a connection with something under way, where `sample` asks for it; as its
    # sender sees it. tenant: the mix or job; flow, or rank and to_rank: which one of its own.
    # sacked_byte: what has arrived beyond a gap; in_flight_byte: without that, and without what
    # TCP takes for lost; window_byte: what the receiver offers; pacing_bps: null if not paced.
    "tcp": _table(
        time_ns=pa.int64(),
        tenant=pa.string(),
        flow=pa.int64(),
        rank=pa.int32(),
        to_rank=pa.int32(),
        src=pa.string(),
        dst=pa.string(),
        acked_byte=pa.int64(),
        sacked_byte=pa.int64(),
        in_flight_byte=pa.int64(),
        unsent_byte=pa.int64(),
        cwnd_byte=pa.int64(),
        window_byte=pa.int64(),
        srtt_ns=pa.int64(),
        retransmits=pa.int64(),
        pacing_bps=pa.int64(),
    ),
    # One row a job: start_ns by the file; end_ns when its last worker had made all its steps, null
    # for a job that runs until the end or broke. `made`: the steps of its slowest worker.
    # status: finished, stopped (by the run's end) or failed; why: what broke it.
    "jobs": _table(
        job=pa.string(),
        start_ns=pa.int64(),
        end_ns=pa.int64(),
        steps=pa.int32(),
        made=pa.int32(),
        status=pa.string(),
        why=pa.string(),
    ),
    # One row a worker, step and parameter server: enter_ns when its gradient was there, leave_ns
    # when the server had what it waited for and began to send the next model.
    "barriers": _table(
        job=pa.string(),
        server=pa.int32(),
        iteration=pa.int32(),
        worker=pa.int32(),
        enter_ns=pa.int64(),
        leave_ns=pa.int64(),
    ),
    # One row a job that came to the cluster. duration_ns is what each task needs (null: until the
    # end), alone_ns what the job takes on the empty cluster, share the largest part of the cluster
    # that it asks for. started_ns: its first task; ended_ns: its last one was done.
    # status: finished, stopped (by the run's end), waiting (never started) or rejected.
    "submissions": _table(
        job=pa.string(),
        submitted_ns=pa.int64(),
        tasks=pa.int32(),
        gang=pa.bool_(),
        gpu_milli=pa.int64(),
        duration_ns=pa.int64(),
        alone_ns=pa.int64(),
        share=pa.float64(),
        deadline_ns=pa.int64(),
        started_ns=pa.int64(),
        ended_ns=pa.int64(),
        status=pa.string(),
    ),
    # One row a task and stretch of it on one host: the host is its from taken_ns to free_ns, and it
    # works from start_ns to end_ns. Between two stretches of a task it is suspended.
    # why it ended: finished, suspended, moved, lost (a host died: what it did is not counted, and
    # tasks of a gang stop on other hosts too), or stopped (by the run's end).
    "stretches": _table(
        job=pa.string(),
        task=pa.int32(),
        host=pa.string(),
        taken_ns=pa.int64(),
        start_ns=pa.int64(),
        end_ns=pa.int64(),
        free_ns=pa.int64(),
        why=pa.string(),
    ),
    # One row a checkpoint that was sent: a host that a training job of a cluster was not on gets it
    # before the job goes on there. end_ns: when it was all there.
    "checkpoints": _table(
        job=pa.string(),
        src=pa.string(),
        dst=pa.string(),
        size_byte=pa.int64(),
        priority=pa.int8(),
        start_ns=pa.int64(),
        end_ns=pa.int64(),
    ),
    # One row for every while in which a job was on GPUs that another one (`beside`) held already.
    "packs": _table(job=pa.string(), beside=pa.string(), start_ns=pa.int64(), end_ns=pa.int64()),
    # Share of one core used by each host's processes since the last sample, 0 … cores.
    "hosts": _table(time_ns=pa.int64(), host=pa.string(), cpu_share=pa.float64()),
}
