"""Which TCP port is whose: every job has its own, so that a host can tell jobs apart."""

FIRST_FLOW_PORT = 6000  # one for each ToS
FIRST_JOB_PORT = 7000
PORTS_A_JOB = 2  # ring and coordinator; a parameter server listens on the first
FIRST_SOURCE_PORT = 20000  # from here on, ports are those of who connects
MOST_JOBS = (FIRST_SOURCE_PORT - FIRST_JOB_PORT) // PORTS_A_JOB


def job_port(index: int) -> int:
    """The first port of the job at this place in the experiment."""
    if not 0 <= index < MOST_JOBS:
        raise ValueError(f"job {index}: ports last for {MOST_JOBS} jobs")
    return FIRST_JOB_PORT + PORTS_A_JOB * index
