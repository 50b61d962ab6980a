"""Every key of an experiment file, and what every engine does with it: data.

`tests/test_settings.py` holds each cell to what the code does, and the list of keys to the models
of the file; `python -m tests.engines_page` makes docs/engines.md of it. A new key needs a row here.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

RACK = """
name: rack
question: Which keys does an engine heed?
topology: {kind: tor, hosts: 4, rate: 200 Mbit/s, delay: 10 us, queue: 100 packets}
duration: 300 ms
warmup: 50 ms
cooldown: 50 ms
training:
  - {name: job, profile: resnet50-thesis, model: 200 kB, iteration: 40 ms, fusion: 50 kB}
flows:
  - {name: web, sizes: web-search, scale: 0.02, arrivals: 100 per second per host}
policies: [strict-priority, fifo, prio]
seeds: [0]
claims:
  - {metric: flows.small.fct_mean, of: fifo, value: at most 1 s}
  - {metric: flows.all.fct_mean, of: fifo, against: strict-priority, change: at most 50 %}
"""
SERVERS = """
name: servers
topology: {kind: tor, hosts: 4, rate: 200 Mbit/s, delay: 10 us, queue: 100 packets}
duration: 400 ms
training:
  - {name: ps, count: 2, profile: resnet32-cpu, model: 300 kB, iteration: 20 ms, fusion: 50 kB,
     aggregation: parameter-server, servers_on: packed}
flows:
  - {name: web, sizes: web-search, scale: 0.02, arrivals: 100 per second per host}
policies: [{policy: tensorlights-rr, period: 100 ms}]
seeds: [0]
"""
PARTED = SERVERS.replace("fusion: 50 kB", "transfer: {policy: p3, partition: 50 kB}").replace(
    "policies: [{policy: tensorlights-rr, period: 100 ms}]", "policies: [fifo]"
)
SUMMED = (
    SERVERS.replace("tor, hosts: 4,", "leaf-spine, hosts: 12, leaves: 2, spines: 1,")
    .replace("servers_on: packed", "servers_on: packed, reduce: {by: tree, chunk: 100 kB}")
    .replace("policies: [{policy: tensorlights-rr, period: 100 ms}]", "policies: [fifo]")
)
WHOLE = SERVERS.replace(
    "profile: resnet32-cpu, model: 300 kB, iteration: 20 ms,",
    "bytes: 300 kB, compute: 'uniform(15 ms, 25 ms)', every: 30 ms,",
).replace("policies: [{policy: tensorlights-rr, period: 100 ms}]", "policies: [fifo]")
WHOLE_RING = WHOLE.replace("aggregation: parameter-server, servers_on: packed", "barrier: true")
WHOLE_KEYS = {
    "bytes": ("200 kB", "what is sent, as a whole"),
    "compute": ("uniform(5 ms, 25 ms)", "how long each iteration computes, drawn from the seed"),
    "every": ("250 ms", "how soon iterations may follow each other"),
}
# Another value of each key of `reduce`.
REDUCTIONS = {
    "by": ("{by: rack, chunk: 100 kB}", "who sums for a rack"),
    "aggregator": ("{by: tree, chunk: 100 kB, aggregator: host}", "whether a rank of its own sums"),
    "degree": ("{by: tree, chunk: 100 kB, degree: 4}", "how many send to one"),
    "chunk": ("{by: tree, chunk: 10 kB}", "what is sent on at once"),
    "across": ("{by: tree, chunk: 100 kB, across: tree}", "who sends to servers"),
    "multicast": ("{by: tree, chunk: 100 kB, multicast: false}", "who sends the model on"),
}
RACKS = RACK.replace("kind: tor, hosts: 4,", "kind: leaf-spine, hosts: 4, leaves: 2, spines: 2,")
PODS = RACK.replace("kind: tor,", "kind: fat-tree, k: 4,")
REPLAY = RACK.replace(
    "sizes: web-search, scale: 0.02, arrivals: 100 per second per host", "schedule: one.csv"
)
CHOICE = "policies: [strict-priority, fifo, prio]"
# So much of both that it matters who is served first.
BUSY = RACK.replace("scale: 0.02, arrivals: 100", "scale: 0.05, arrivals: 300").replace(
    "model: 200 kB, iteration: 40 ms", "model: 400 kB, iteration: 40 ms"
)
STEERED = BUSY.replace(CHOICE, "policies: [{policy: slack-aware}, fifo, strict-priority]")
MODEST = STEERED.replace("model: 400 kB", "model: 100 kB").replace("arrivals: 300", "arrivals: 50")
FIRST = BUSY.replace(CHOICE, "policies: [{policy: first-bytes}, fifo, strict-priority]")
SHARES = BUSY.replace(
    CHOICE, "policies: [{policy: htb-priority, bands: {job: low}}, fifo, strict-priority]"
)
DOCKER = RACK + "hosts: docker\ncontainer: {cpus: 1, memory: 200 MB}\n"
STACK = RACK.replace("fusion: 50 kB}", "fusion: 50 kB, backend: torch}")
SENDING_STACK = STACK.replace("backend: torch", "backend: torch, transfer: fifo")
SWEEP = RACK + "sweep: {size: {title: size, key: training.0.model, values: [1 MB, 2 MB]}}\n"
CLUSTER = """
name: cluster
topology: {kind: tor, hosts: 4, rate: 200 Mbit/s, delay: 10 us, queue: 100 packets}
duration: 100000 min
cluster:
  host: {gpu: 4, cpu: 8, memory: 40 GB, disk: 60 GB}
  jobs:
    - {name: drawn, count: 30, arrivals: uniform over 100 s, tasks: 1 to 3, gang: false,
       demand: {gpu: 1 to 2, cpu: 1 to 8, memory: 1 GB to 40 GB, disk: 1 GB to 60 GB,
                network: 1 Mbit/s to 100 Mbit/s},
       duration: 5 s to 60 s}
  checkpoint: {suspend: 100 ms, resume: 1 s}
placements: [{placement: srtf}, {placement: fifo, label: last}]
seeds: [0]
"""
TRAINED = """
name: trained
topology: {kind: tor, hosts: 4, rate: 200 Mbit/s, delay: 10 us, queue: 100 packets}
duration: 20 s
cluster:
  host: {gpu: 2}
  jobs:
    - {name: drawn, kind: training, count: 4, arrivals: uniform over 200 ms, demand: {gpu: 1},
       profile: resnet50-thesis, model: 1 MB, iteration: 20 ms, workers: 2 to 4,
       iterations: 4 to 20}
  checkpoint: {suspend: 100 ms, resume: 1 s, size: 3 x model, band: low}
policies: [strict-priority]
placements: [{placement: srtf}]
seeds: [0]
"""
FAILING = TRAINED.replace("policies:", "  failures: [{host: h2, at: 300 ms}]\npolicies:")
A_FLOW = "flows: [{name: web, sizes: web-search, arrivals: 1 per second per host}]\n"
EPOCHS = TRAINED.replace("iterations: 4 to 20", "epochs: 1 to 5, samples: 100, batch: 25")
TRAINED_WHOLE = TRAINED.replace(
    "profile: resnet50-thesis, model: 1 MB, iteration: 20 ms", "bytes: 1 MB, compute: 20 ms"
)
TRAINED_SERVED = TRAINED.replace(
    "workers: 2 to 4", "aggregation: parameter-server, workers: 2 to 4"
)
# Two jobs that share both hosts' cables, each with a worker on either: no two of one fit on a host.
SHARING = """
name: sharing
topology: {kind: tor, hosts: 3, rate: 200 Mbit/s, delay: 10 us, queue: 100 packets}
duration: 8 s
cluster:
  host: {gpu: 2, cpu: 10, memory: 10 GB}
  jobs:
    - {name: a, kind: training, count: 1, arrivals: uniform over 1 ms, workers: 2, iterations: 30,
       bytes: 2 MB, compute: 40 ms, fusion: 1 GB, demand: {gpu: 1, cpu: 6, memory: 4 GB}}
    - {name: b, kind: training, count: 1, arrivals: uniform over 1 ms, workers: 2, iterations: 30,
       bytes: 2 MB, compute: 45 ms, fusion: 1 GB, demand: {gpu: 1, cpu: 4, memory: 6 GB}}
policies: [strict-priority]
placements: [{placement: crux}]
seeds: [0]
"""
SHIFTING = SHARING.replace("placement: crux", "placement: cassini, check: 200 ms").replace(
    "compute: 45 ms", "compute: 40 ms"
)
EQUALS = SHARING.replace("bytes: 2 MB, compute: 45 ms", "bytes: 4 MB, compute: 80 ms")
MIGRATING = (
    SHARING[: SHARING.index("    - {name: a")]
    + """\
    - {name: early, count: 2, arrivals: uniform over 1 us, demand: {gpu: 1, cpu: 6}, duration: 7 s}
    - {name: goes, count: 1, arrivals: uniform over 1 us, demand: {gpu: 2, cpu: 6}, duration: 1 s}
    - {name: moves, kind: training, count: 1, arrivals: uniform over 900 ms, workers: 2,
       iterations: 60, bytes: 1 MB, compute: 20 ms, demand: {gpu: 1, cpu: 2}}
policies: [strict-priority]
placements: [{placement: gandiva-lite}]
seeds: [0]
"""
)
PACKING = SHARING.replace("{gpu: 2, cpu", "{gpu: 1, cpu").replace(
    "placement: crux", "placement: gandiva-lite, slice: 500 ms"
)
TRACED = (
    CLUSTER[: CLUSTER.index("    - {name: drawn")]
    + """\
    - {name: read, trace: jobs-1.csv}
placements: [{placement: fifo}]
seeds: [0]
"""
)
SCHEDULES = {
    "jobs-1.csv": "submitted_s,duration_s,gpu\n0,5,1\n1,5,4\n",
    "jobs-2.csv": "submitted_s,duration_s,gpu\n0,5,1\n1,7,4\n",
    "tiresias.csv": "job_id,num_gpu,submit_time,duration\n0,2,0,9\n",
    "one.csv": "start_ns,src,dst,size_byte\n1000000,h1,h2,50000\n",
    "other.csv": "start_ns,src,dst,size_byte\n1000000,h1,h3,90000\n",
}


@dataclass(frozen=True)
class Changes:
    """Another value changes this part of what the engine makes of the file (`told.parts`)."""

    part: str
    shows: str
    to: tuple[str, ...] = ()  # where not the row's own
    base: str = ""  # likewise


@dataclass(frozen=True)
class Analysis:
    """No engine heeds it: it is for who reads the results, and in this part of what is written."""

    part: str
    shows: str
    base: str = ""  # where not the row's own


@dataclass(frozen=True)
class Refused:
    """These settings are refused with a line that says this, and the command ends with the code."""

    to: tuple[str, ...]
    says: str
    what: str  # it is that is refused, for the page
    code: int = 3
    base: str = ""  # where not the row's own
    lacking: frozenset[str] = frozenset()  # on a machine without these


Effect = Changes | Analysis | Refused
Cell = tuple[Effect, ...]


@dataclass(frozen=True)
class Row:
    key: str
    to: tuple[str, ...]  # values that the base does not have
    realtime: Cell
    virtual: Cell
    fluid: Cell
    base: str = RACK

    @property
    def cells(self) -> Mapping[str, Cell]:
        return {"realtime": self.realtime, "virtual": self.virtual, "fluid": self.fluid}


def row(key: str, to: str, live: Effect, fluid: Effect, base: str = RACK, beside: str = "") -> Row:
    """A key that both live engines treat alike; `beside` is set together with it."""
    settings = tuple(part for part in (to, beside) if part)
    return Row(key, settings, (live,), (live,), (fluid,), base)


def told(key: str, to: str, shows: str, base: str = RACK, beside: str = "") -> Row:
    """A key that every live task is told, and that the simulation plays."""
    return row(key, to, Changes("tasks", shows), Changes("records", shows), base, beside)


def ports(key: str, to: str, shows: str, fluid: str, base: str = RACK, beside: str = "") -> Row:
    """A key of the network: in what nodes are told, or in what a link is for the simulation."""
    return row(key, to, Changes("nodes", shows), Changes("records", fluid), base, beside)


def written(key: str, to: str, shows: str, part: str = "plan", base: str = RACK) -> Row:
    effect = Analysis(part, shows)
    return row(key, to, effect, effect, base)


def lacks(feature: str, says: str, what: str, *to: str) -> Refused:
    return Refused(to, says, f"{what} on a kernel without {feature}", lacking=frozenset({feature}))


ONLY_LINKS = "the graph, and the ways through it"
NO_DOCKER = Refused(("hosts=docker",), "hosts: docker needs `--engine realtime`", "docker")
NO_LIMITS = replace(NO_DOCKER, what="with `hosts: docker`", base=DOCKER)
NO_HOSTS = Refused(
    ("hosts=namespaces",), "container: found limits", "beside namespaces", code=2, base=DOCKER
)

NO_CORES = Refused(
    ("topology.cores=1",),
    "topology.cores: found 1 beside backend: torch",
    "beside torch, horovod",
    code=2,
    base=STACK,
)

TOPOLOGY = (
    Row(
        "topology.kind",
        ("topology.kind=fat-tree", "topology.k=4"),
        (
            Changes("nodes", "nodes and cables; one switch is a bridge, several are routers"),
            lacks(
                "multipath",
                "cannot share flows out",
                "several ways",
                "topology.kind=fat-tree",
                "topology.k=4",
            ),
        ),
        (Changes("nodes", "nodes and cables; one switch is a bridge, several are routers"),),
        (Changes("records", ONLY_LINKS),),
    ),
    ports("topology.hosts", "topology.hosts=5", "a node each", ONLY_LINKS),
    Row(
        "topology.cores",
        ("topology.cores=1",),
        *((Changes("tasks", "what a host's native workers compute on together"), NO_CORES),) * 2,
        (Changes("records", "what a host's workers compute on together"), NO_CORES),
        base=SERVERS.replace("iteration: 20 ms", "iteration: 100 ms"),  # both jobs compute at once
    ),
    ports("topology.leaves", "topology.leaves=4", "a router each", ONLY_LINKS, RACKS),
    ports("topology.spines", "topology.spines=1", "a router each", ONLY_LINKS, RACKS),
    ports("topology.k", "topology.k=6", "the routers and their cables", ONLY_LINKS, PODS),
    ports(
        "topology.oversubscription",
        "topology.oversubscription=4",
        "the shapers between switches",
        "the capacity of links between switches",
        RACKS,
    ),
    ports(
        "topology.rate",
        "topology.rate=100 Mbit/s",
        "the shaper of every port, read back",
        "the capacity of every link",
    ),
    Row(
        "topology.delay",
        ("topology.delay=1 ms",),
        (
            Changes("nodes", "netem before every port; `about` takes what a kernel without it has"),
            lacks("netem", "a delay of exactly 1 ms needs", "`1 ms`", "topology.delay=1 ms"),
        ),
        (
            Changes("nodes", "netem before every port; `about` is exact too"),
            Refused(("topology.delay=10.5 us",), "whole microseconds", "parts of a microsecond"),
        ),
        (Changes("records", "the delay of every link; `about` is exact too"),),
    ),
    ports(
        "topology.queue",
        "topology.queue=10 packets",
        "the limit of every queue",
        "where queues overflow",
    ),
)

LOSSY = RACK.replace("queue: 100 packets", "queue: 5 packets")
SHORT_TIMER = Refused(
    ("tcp={rto_min: 1 us}", "dilation=1"), "tcp.rto_min: 1 us is below a tick", "below a tick"
)

EXPERIMENT = (
    written("name", "name=other", "the report's title"),
    written("question", "question=Why?", "the report's question"),
    told("duration", "duration=400 ms", "when tasks stop"),
    written("warmup", "warmup=60 ms", "from when on runs are counted"),
    written("cooldown", "cooldown=60 ms", "until when runs are counted"),
    told("seeds", "seeds=[1]", "which flows there are, and their ways"),
    Row(
        "tcp.control",
        ("tcp=dctcp",),
        (
            Changes("nodes", "the route of every host", to=("tcp=reno",)),
            Changes("nodes", "for dctcp, marks at switches"),
            lacks("bbr", "has no TCP congestion control bbr", "bbr", "tcp=bbr"),
            lacks("mltcp", "has no TCP congestion control mltcp", "mltcp", "tcp=mltcp"),
            lacks("codel", "tcp: dctcp needs the codel qdisc", "dctcp", "tcp=dctcp"),
        ),
        (
            Changes("nodes", "the route of every host", to=("tcp=reno",)),
            Changes("nodes", "for dctcp, marks at switches"),
        ),
        (
            Changes("records", "dctcp: queues end where switches would mark"),
            Changes("records", "reno: how windows grow and shrink", to=("tcp=reno",)),
            Refused(("tcp=bbr",), "tcp: bbr is not simulated, only cubic,", "bbr"),
            Changes(
                "records",
                "mltcp: as reno, and who has sent more of an iteration gets more",
                to=("tcp=mltcp",),
            ),
        ),
    ),
    row(
        "tcp.window",
        "tcp={control: cubic, window: 16 MB}",
        Changes("nodes", "the buffers of every socket; auto is the kernel's own tuning"),
        Changes("records", "what receivers have room for", to=("tcp={window: 8 kB}",)),
    ),
    Row(
        "tcp.rto_min",
        ("tcp={control: cubic, rto_min: 20 ms}",),
        *((Changes("nodes", "the shortest timeout, in whole ticks"), SHORT_TIMER),) * 2,
        (
            Changes("records", "the shortest timeout, in ticks of 4 ms", base=LOSSY),
            SHORT_TIMER,
        ),
    ),
    row(
        "sample.tcp",
        "sample={tcp: 10 ms}",
        Changes("tasks", "the table `tcp`: windows, bytes under way, round trip, retransmissions"),
        Refused(("sample=tcp",), "sample.tcp: a simulation has no sockets", "any"),
    ),
    Row(
        "offload",
        ("offload=on",),
        (Changes("nodes", "frames a packet, queues in bytes; auto is on", to=("offload=off",)),),
        (Changes("nodes", "frames a packet, queues in bytes; auto is off"),),
        (
            Refused(("offload=on",), "offload: on is about packets", "on"),
            Refused(("offload=off",), "offload: off is about packets", "off"),
        ),
    ),
    Row(
        "dilation",
        ("dilation=4",),
        (Changes("tasks", "every clock, rate and delay; auto measures the machine"),),
        (Refused(("dilation=4",), "dilation: 4.0 makes no sense in the virtual", "any but 1"),),
        (Refused(("dilation=4",), "dilation: 4.0 makes no sense in a simulation", "any but 1"),),
    ),
    Row(
        "on_failure",
        ("on_failure=continue",),
        *(
            (
                Changes("tasks", "whether a host's servers and workers go on without a dead peer"),
                Refused(
                    ("on_failure=continue",),
                    "on_failure: found continue, but no job here is native",
                    "continue, without native jobs",
                    code=2,
                    base=STACK,
                ),
            ),
        )
        * 2,
        (
            Refused(
                ("on_failure=continue",), "on_failure: continue is for tasks that die", "continue"
            ),
        ),
        base=SERVERS,
    ),
    Row(
        "hosts",
        ("hosts=docker",),
        (Changes("containers", "a container each"),),
        (NO_DOCKER,),
        (NO_DOCKER,),
    ),
    Row(
        "container.cpus",
        ("container.cpus=0.5",),
        (Changes("containers", "docker run --cpus"), NO_HOSTS),
        (NO_LIMITS,),
        (NO_LIMITS,),
        base=DOCKER,
    ),
    Row(
        "container.memory",
        ("container.memory=300 MB",),
        (Changes("containers", "docker run --memory"), NO_HOSTS),
        (NO_LIMITS,),
        (NO_LIMITS,),
        base=DOCKER,
    ),
)

NO_STACK = Refused(
    ("training.0.backend=torch",), "training.0.backend: torch is real software", "torch, horovod"
)
NO_SUMS = Refused(("training.0.check=true",), "training.0.check: true adds real numbers", "true")
JOBS = (
    told("training.*.name", "training.0.name=other", "the job's name in every record"),
    told("training.*.profile", "training.0.profile=vgg16-cpu", "the layers"),
    told("training.*.model", "training.0.model=1 MB", "the layers' bytes"),
    told(
        "training.*.aggregation",
        "training.0.aggregation=parameter-server",
        "a ring's members, or servers and workers",
    ),
    Row(
        "training.*.workers",
        ("training.0.workers=2",),
        (Changes("tasks", "which hosts have one"),),
        (Changes("tasks", "which hosts have one"),),
        (Changes("records", "which hosts have one; beside its server, without the network"),),
    ),
    told(
        "training.*.workers_on",
        "training.0.workers_on=spread",
        "which hosts of the racks",
        RACKS.replace("fusion: 50 kB}", "fusion: 50 kB, workers: 3}"),
    ),
    told("training.*.iteration", "training.0.iteration=80 ms", "the layers' times"),
    told("training.*.fusion", "training.0.fusion=300 kB", "what is sent at once"),
    told("training.*.order", "training.0.order=layer", "what is sent first"),
    told("training.*.transfer.policy", "training.0.transfer=layer", "what is sent first"),
    told(
        "training.*.transfer.partition",
        "training.0.transfer={policy: fifo, partition: 10 kB}",
        "in which parts",
    ),
    told(
        "training.*.transfer.credit",
        "training.0.transfer={policy: fifo, credit: 150 kB}",
        "how much is on its way at once",
    ),
    written(
        "training.*.transfer.label", "training.0.transfer={policy: fifo, label: other}", "its name"
    ),
    told("training.*.groups", "training.0.groups=from-last", "which layers are sent together"),
    told("training.*.update", "training.0.update=1 MB/s", "how fast a server updates", PARTED),
    told("training.*.barrier", "training.0.barrier=false", "what a forward pass waits for"),
    told(
        "training.*.passes",
        "training.0.passes=forward",
        "whether gradients are pushed, or the model is read alone",
        PARTED,
    ),
    row(
        "training.*.backend",
        "training.0.backend=torch",
        Changes("tasks", "which program trains"),
        NO_STACK,
    ),
    row(
        "training.*.check",
        "training.0.check=true",
        Changes("tasks", "real numbers are sent, added up and checked"),
        NO_SUMS,
    ),
    told("training.*.count", "training.0.count=3", "so many jobs"),
    written("training.*.family", "training.0.family=kin", "the table of tenants"),
    told("training.*.start", "training.0.start=50 ms", "when it begins"),
    told("training.*.stagger", "training.0.stagger=20 ms", "when each begins", SERVERS),
    told("training.*.steps", "training.0.steps=1", "when it rests"),
    told("training.*.gradient", "training.0.gradient=100 kB", "what is pushed in a step", SERVERS),
    told("training.*.servers", "training.0.servers=2", "over whom the model is cut", SERVERS),
    told("training.*.servers_on", "training.0.servers_on=spread", "where they run", SERVERS),
    told(
        "training.*.synchronisation",
        "training.0.synchronisation=async",
        "for whom a server waits",
        SERVERS,
    ),
    told("training.*.stale", "training.0.stale=2", "how long it waits for the slowest", SERVERS),
    *(
        told(f"training.*.{key}", f"training.0.{key}={value}", shows, WHOLE)
        for key, (value, shows) in WHOLE_KEYS.items()
    ),
    *(
        told(f"training.*.reduce.{key}", f"training.0.reduce={value}", shows, SUMMED)
        for key, (value, shows) in REDUCTIONS.items()
    ),
)

TOO_MANY_SENDERS = Refused(
    ("flows.0.pairs=incast 4",),
    "flows.0.pairs: found incast 4; 4 hosts leave 3 that can send to one",
    "an incast of more senders than there are other hosts",
    code=2,
)
INCAST = "who sends to whom, and whether at once"

FLOWS = (
    told("flows.*.name", "flows.0.name=other", "what flows are drawn from, with the seed"),
    told("flows.*.sizes", "flows.0.sizes=data-mining", "how long flows are"),
    told("flows.*.scale", "flows.0.scale=0.03", "how long drawn flows are; the classes of all"),
    told("flows.*.arrivals", "flows.0.arrivals=90 per second per host", "when flows start"),
    Row(
        "flows.*.pairs",
        ("flows.0.pairs=incast 3",),
        (Changes("tasks", INCAST), TOO_MANY_SENDERS),
        (Changes("tasks", INCAST), TOO_MANY_SENDERS),
        (Changes("records", INCAST), TOO_MANY_SENDERS),
    ),
    told("flows.*.schedule", "flows.0.schedule=other.csv", "the flows themselves", REPLAY),
)

TWO_SCALES = Refused(
    (
        "policies.0.kernel=1",
        "flows=[{name: a, sizes: web-search, scale: 0.1, arrivals: 9 per second per host}, "
        "{name: b, sizes: web-search, arrivals: 9 per second per host}]",
        "claims=[]",
    ),
    "a kernel knows no mixes: a has 0.1, b has 1",
    "`1` beside flows of several scales",
)
LATER_MIX = Refused(
    ("policies.0={policy: first-bytes, kernel: 1, second_threshold: 1 MB, bands: {web: middle}}",),
    "web begins in middle, and the kernel demotes what begins in high",
    "`1` beside flows that are demoted from another band",
)
BY_KERNELS: Cell = (
    Changes("marks", "who marks: nftables in each host, for any program"),
    Changes("tasks", "and not senders"),
    TWO_SCALES,
    LATER_MIX,
)

POLICIES = (
    Row(
        "policies.*.policy",
        ("policies.0=htb-priority", "claims=[]"),
        (
            Changes("nodes", "the queues of every port; slack-aware also steers jobs"),
            lacks(
                "fq_codel",
                "the policy fq-codel needs fq_codel",
                "fq-codel",
                "policies.0=fq-codel",
                "claims=[]",
            ),
        ),
        (Changes("nodes", "the queues of every port; slack-aware also steers jobs"),),
        (Changes("records", "who is served first; slack-aware also steers jobs"),),
    ),
    written(
        "policies.*.label",
        "policies.2={policy: prio, label: other}",
        "the folder of its runs",
        "runs",
    ),
    told(
        "policies.*.bands",
        "policies.0={policy: strict-priority, bands: {job: middle}}",
        "the band of a job or mix; it is not steered then",
    ),
    told("policies.*.period", "policies.0.period=30 ms", "how often the policy acts", SERVERS),
    *(
        told(f"policies.*.{key}", f"policies.0.{key}={value}", f"when a flow's {what}", FIRST)
        for key, value, what in (
            ("threshold", "2 kB", "first bytes end"),
            ("second_threshold", "200 kB", "rest goes last"),
        )
    ),
    ports(
        "policies.*.fair", "policies.0.fair=1", "a queue a flow in each class", "who waits", FIRST
    ),
    Row(
        "policies.*.kernel",
        ("policies.0.kernel=1",),
        (*BY_KERNELS, lacks("nft", "has no nftables", "`1`", "policies.0.kernel=1")),
        BY_KERNELS,
        (Analysis("plan", "flows are demoted exactly at the threshold, whoever marks"),),
        FIRST,
    ),
    told("policies.*.tolerance", "policies.0.tolerance=0.5", "how late training may be", STEERED),
    told("policies.*.account", "policies.0.account=1", "whether what it cost counts", MODEST),
    *(
        ports(f"policies.*.{band}", f"policies.0.{band}=0.01", share, share, base)
        for share in ["what a band is sure of"]
        for band, base in (
            ("high", SHARES.replace("bands: {job: low}", "bands: {web: high, job: middle}")),
            ("middle", SHARES.replace("bands: {job: low}", "bands: {job: middle}")),
            ("low", SHARES),
        )
    ),
)

TRANSFERS = (
    *(
        told(f"{at}.{key}", setting % choice, f"as in a job, {whose}", beside=beside)
        for at, setting, whose, beside in (
            (
                "policies.*.transfer",
                "policies.0={policy: strict-priority, transfer: %s}",
                "for all jobs",
                "",
            ),
            ("transfers.*", "transfers=[%s]", "each with every policy", "claims=[]"),
        )
        for key, choice in (
            ("policy", "{policy: layer}"),
            ("partition", "{policy: fifo, partition: 10 kB}"),
            ("credit", "{policy: fifo, credit: 150 kB}"),
        )
    ),
    written(
        "policies.*.transfer.label",
        "policies.0={policy: strict-priority, transfer: {policy: fifo, label: other}}",
        "its name in reports",
    ),
    Row(
        "transfers.*.label",
        ("transfers=[{policy: fifo, label: other}]", "claims=[]"),
        *((Analysis("runs", "the folder of its runs, behind the policy's"),),) * 3,
    ),
)

CLAIMS = (
    written("claims.*.metric", "claims.0.metric=flows.large.fct_mean", "what is claimed"),
    written("claims.*.of", "claims.0.of=strict-priority", "of which policy"),
    written("claims.*.against", "claims.1={metric: flows.all.fct_mean, of: strict-priority, "
            "against: fifo, change: at most 50 %}", "against which"),
    written("claims.*.change", "claims.1.change=at most 20 %", "by how much"),
    written("claims.*.value", "claims.0.value=at most 2 s", "how much"),
)  # fmt: skip

SWEEPS = (
    written("sweep.*.title", "sweep.size.title=bytes", "the axis of maps", "sweep", SWEEP),
    row(
        "sweep.*.key",
        "sweep.size.key=training.0.fusion",
        Changes("points", "an experiment of its own at every point"),
        Changes("points", "an experiment of its own at every point"),
        SWEEP,
    ),
    row(
        "sweep.*.values",
        "sweep.size.values=[3 MB]",
        Changes("points", "an experiment of its own at every point"),
        Changes("points", "an experiment of its own at every point"),
        SWEEP,
    ),
)

FIFO_FIRST, TETRIS_FIRST, LAS_FIRST, SLICES_FIRST = (
    CLUSTER.replace("{placement: srtf}", f"{{placement: {name}}}")
    for name in ("fifo", "tetris-2014", "las, threshold: 30 s", "gandiva-lite, slice: 10 s")
)


def clustered(key: str, to: str, shows: str, base: str = CLUSTER, beside: str = "") -> Row:
    """A key of a cluster."""
    settings = tuple(part for part in (to, beside) if part)
    cell: Cell = (Changes("tasks", shows),)
    return Row(key, settings, cell, cell, (Changes("records", shows),), base)


UNSIZED = TRAINED.replace(", size: 3 x model, band: low", "")
NO_STEERING, NO_PACKS = (
    Refused(("cluster.jobs.0.backend=torch", to), f"{says}, and jobs drawn", f"torch {what}", 2)
    for to, says, what in (
        ("policies=[slack-aware]", "moves workers between bands by itself", "with `slack-aware`"),
        ("placements=[{placement: gandiva-lite, pack: 2}]", "pack: found 2", "with `pack`"),
    )
)
ROOM = "what fits on a host"
WHICH_JOBS = "which jobs come"
ALL_BUSY = (
    "cluster.jobs.0={name: drawn, kind: busy, count: 4, arrivals: uniform over 200 ms, "
    "demand: {gpu: 1}, duration: 1 s}"
)
CLUSTERS = (
    clustered("cluster.host.gpu", "cluster.host.gpu=8", ROOM),
    clustered("cluster.host.cpu", "cluster.host.cpu=9", ROOM),
    clustered("cluster.host.memory", "cluster.host.memory=41 GB", ROOM),
    clustered("cluster.host.disk", "cluster.host.disk=61 GB", ROOM),
    clustered(
        "cluster.jobs.*.name",
        "cluster.jobs.0.name=other",
        "names of jobs, and their draws",
    ),
    Row(
        "cluster.jobs.*.kind",
        (ALL_BUSY,),
        *((Changes("tasks", "whether jobs send something"),),) * 2,
        (Changes("records", "whether jobs send something"),),
        UNSIZED + A_FLOW,
    ),
    *(
        clustered(f"cluster.jobs.*.{key}", f"cluster.jobs.0.{key}={to}", shows, base)
        for key, to, shows, base in (
            ("profile", "vgg16-cpu", "what an iteration computes and sends", TRAINED),
            ("bytes", "2 MB", "what an iteration sends", TRAINED_WHOLE),
            ("compute", "30 ms", "how long an iteration computes", TRAINED_WHOLE),
            ("model", "2 MB", "what an iteration sends", TRAINED),
            ("iteration", "30 ms", "how long an iteration computes", TRAINED),
            ("aggregation", "parameter-server", "who sends what to whom", TRAINED),
            ("servers", "2", "who sends what to whom", TRAINED_SERVED),
            ("gradient", "100 kB", "what is pushed in an iteration", TRAINED_SERVED),
            ("fusion", "100 kB", "which layers are sent together", TRAINED),
            ("barrier", "false", "what a forward pass waits for", TRAINED),
            ("workers", "3", "workers of a job", TRAINED),
            ("iterations", "7", "how long a job trains", TRAINED),
            ("epochs", "3", "iterations of a job", EPOCHS),
            ("samples", "200", "iterations of a job", EPOCHS),
            ("batch", "10", "iterations of a job", EPOCHS),
        )
    ),
    Row(
        "cluster.jobs.*.backend",
        ("cluster.jobs.0.backend=torch",),
        *((Changes("tasks", "whose ranks train"), NO_STEERING, NO_PACKS),) * 2,
        (
            Refused(
                ("cluster.jobs.0.backend=torch",), "torch is real software, and the fluid", "torch"
            ),
        ),
        UNSIZED,
    ),
    clustered("cluster.jobs.*.trace", "cluster.jobs.0.trace=jobs-2.csv", WHICH_JOBS, TRACED),
    clustered(
        "cluster.jobs.*.format",
        "cluster.jobs.0.format=tiresias",
        "how the trace is read",
        TRACED,
        "cluster.jobs.0.trace=tiresias.csv",
    ),
    clustered("cluster.jobs.*.count", "cluster.jobs.0.count=20", WHICH_JOBS),
    clustered(
        "cluster.jobs.*.arrivals",
        "cluster.jobs.0.arrivals=poisson over 90 s",
        "when jobs come",
    ),
    clustered(
        "cluster.jobs.*.like",
        "cluster.jobs.0={name: drawn, count: 30, arrivals: uniform over 100 s, like: philly}",
        "tasks and durations of jobs",
    ),
    clustered("cluster.jobs.*.tasks", "cluster.jobs.0.tasks=2", "tasks of a job"),
    clustered("cluster.jobs.*.gang", "cluster.jobs.0.gang=true", "whether they start together"),
    *(
        clustered(f"cluster.jobs.*.demand.{name}", f"cluster.jobs.0.demand.{name}={to}", ROOM)
        for name, to in (
            ("gpu", "2 to 4"),
            ("cpu", "3 to 8"),
            ("memory", "20 GB to 40 GB"),
            ("disk", "30 GB to 60 GB"),
            ("network", "50 Mbit/s to 100 Mbit/s"),
        )
    ),
    clustered("cluster.jobs.*.duration", "cluster.jobs.0.duration=6 s", "how long a task runs"),
    clustered(
        "cluster.jobs.*.deadline",
        "cluster.jobs.0.deadline=2 x alone",
        "when a job is due",
    ),
    clustered(
        "cluster.checkpoint.suspend",
        "cluster.checkpoint.suspend=2 s",
        "from when on a host is free after a suspension",
    ),
    clustered(
        "cluster.checkpoint.resume",
        "cluster.checkpoint.resume=3 s",
        "when a task works again after it was resumed",
    ),
    clustered(
        "cluster.checkpoint.size", "cluster.checkpoint.size=1 x model", "bytes sent", TRAINED
    ),
    clustered(
        "cluster.checkpoint.band", "cluster.checkpoint.band=high", "the band of those", TRAINED
    ),
    clustered(
        "cluster.failures.*.host", "cluster.failures.0.host=h3", "whose jobs start anew", FAILING
    ),
    clustered("cluster.failures.*.at", "cluster.failures.0.at=900 ms", "when they do", FAILING),
    clustered("placements.*.placement", "placements.0.placement=fifo", "who runs where and when"),
    Row(
        "placements.*.label",
        ("placements.0.label=mine",),
        *((Analysis("plan", "its name in results"),),) * 3,
        CLUSTER,
    ),
    clustered("placements.*.blocking", "placements.0.blocking=false", "who may pass", FIFO_FIRST),
    clustered(
        "placements.*.node",
        "placements.0.node=cosine",
        "which host a task gets",
        FIFO_FIRST.replace("gpu: 4, cpu: 8, memory: 40 GB", "gpu: 8, cpu: 40, memory: 200 GB"),
    ),
    clustered("placements.*.remaining", "placements.0.remaining=0", "which task", TETRIS_FIRST),
    clustered("placements.*.fairness", "placements.0.fairness=0.9", "whose tasks", TETRIS_FIRST),
    clustered("placements.*.threshold", "placements.0.threshold=90 s", "who gives way", LAS_FIRST),
    clustered("placements.*.queues", "placements.0.queues=4", "who gives way", LAS_FIRST),
    clustered(
        "placements.*.slice", "placements.0.slice=20 s", "when others have a turn", SLICES_FIRST
    ),
    clustered("placements.*.migrate", "placements.0.migrate=false", "whether jobs move", MIGRATING),
    clustered("placements.*.pack", "placements.0.pack=2", "who shares GPUs", PACKING),
    clustered("placements.*.spare", "placements.0.spare=1", "the bands of jobs", SHARING),
    clustered("placements.*.equals", "placements.0.equals=longer", "the bands of jobs", EQUALS),
    clustered("placements.*.check", "placements.0.check=1 s", "when jobs are shifted", SHIFTING),
    clustered("placements.*.drift", "placements.0.drift=10", "when jobs are shifted", SHIFTING),
)

ROWS = (*EXPERIMENT, *TOPOLOGY, *JOBS, *FLOWS, *POLICIES, *TRANSFERS, *CLAIMS, *SWEEPS, *CLUSTERS)


@dataclass(frozen=True)
class JobRow:
    """What a kind of job does with one of its keys; values are those of ROWS."""

    key: str
    ring: Effect
    servers: Effect
    stacks: Effect
    horovod: Effect | None = None  # where it is not what torch does

    @property
    def cells(self) -> Mapping[str, Effect]:
        return {
            "ring": self.ring,
            "parameter-server": self.servers,
            "torch": self.stacks,
            "horovod": self.horovod or self.stacks,
        }


KINDS = {
    "ring": RACK,
    "parameter-server": SERVERS,
    "torch": STACK,
    "horovod": STACK.replace("torch", "horovod"),
}
HEEDED = Changes("tasks", "heeded")


def door(key: str, value: str, says: str) -> Refused:
    return Refused((f"training.0.{key}={value}",), f"training.0.{key}: {says}", value, code=2)


def only_native(key: str, value: str) -> Refused:
    return replace(door(key, value, "found beside backend: "), what="given at all")


def only_servers(key: str, value: str) -> Refused:
    return replace(door(key, value, "found beside aggregation: ring"), what="given at all")


def not_servers(key: str, value: str) -> Refused:
    return door(key, value, "found in a parameter-server job")


NO_FUSION = "which fuses nothing here"
NO_ORDER = "beside backend: horovod, which has no parts, credit or priorities"

JOB_ROWS = (
    *(
        JobRow(f"training.*.{key}", HEEDED, HEEDED, HEEDED)
        for key in ("name", "profile", "model", "workers", "iteration", "check", "count")
    ),
    JobRow(
        "training.*.workers_on",
        *(
            Changes(
                "tasks",
                "heeded, with racks",
                base=base.replace("tor, hosts: 4,", "leaf-spine, hosts: 4, leaves: 2, spines: 1,"),
            )
            for base in (RACK, SERVERS, STACK)
        ),
    ),
    JobRow(
        "training.*.fusion",
        Changes("tasks", "what one ring carries"),
        Changes("tasks", "what is pushed at once"),
        Changes("tasks", "DDP's bucket size, Horovod's fusion threshold"),
    ),
    JobRow(
        "training.*.aggregation",
        HEEDED,
        Changes("tasks", "heeded", to=("training.0={name: ps, profile: resnet32-cpu}",)),
        Refused(
            ("training.0.aggregation=parameter-server",),
            "a parameter-server job is native: leave it out",
            "parameter-server",
            code=2,
        ),
    ),
    JobRow(
        "training.*.backend",
        HEEDED,
        door("backend", "torch", "found torch; a parameter-server job is native"),
        Changes("tasks", "heeded", to=("training.0.backend=native",)),
    ),
    JobRow(
        "training.*.order",
        HEEDED,
        not_servers("order", "layer"),
        door("order", "layer", "found layer beside backend: "),
    ),
    *(
        JobRow(
            f"training.*.transfer.{key}",
            HEEDED if key != "label" else Analysis("plan", "its name"),
            replace(door("transfer", value, "found beside"), says=NO_FUSION, what="with fusion"),
            HEEDED if key != "label" else Analysis("plan", "its name", base=SENDING_STACK),
            replace(door("transfer", value, ""), says=NO_ORDER, what="any but fifo without options")
            if key != "label"
            else Analysis("plan", "its name"),
        )
        for key, value in (
            ("policy", "layer"),
            ("partition", "{policy: fifo, partition: 10 kB}"),
            ("credit", "{policy: fifo, credit: 150 kB}"),
            ("label", "{policy: fifo, label: other}"),
        )
    ),
    JobRow(
        "training.*.groups",
        HEEDED,
        door("groups", "from-last", "found from-last; it is for native jobs with a collective"),
        door("groups", "from-last", "found from-last; it is for native jobs with a collective"),
    ),
    JobRow(
        "training.*.update",
        only_servers("update", "1 MB/s"),
        Changes("tasks", "heeded, with transfer", base=PARTED),
        only_servers("update", "1 MB/s"),
    ),
    JobRow(
        "training.*.barrier",
        HEEDED,
        not_servers("barrier", "false"),
        door("barrier", "false", "found false beside backend: "),
    ),
    JobRow(
        "training.*.passes",
        door("passes", "forward", "found forward; it is for parameter-server jobs with transfer"),
        Changes("tasks", "heeded, with transfer", base=PARTED),
        door("passes", "forward", "found forward; it is for parameter-server jobs with transfer"),
    ),
    JobRow(
        "training.*.family",
        *(Analysis("plan", "the table of tenants"),) * 3,
    ),
    JobRow("training.*.start", HEEDED, HEEDED, only_native("start", "50 ms")),
    JobRow(
        "training.*.stagger",
        Changes("tasks", "heeded, with count", base=RACK.replace("fusion:", "count: 2, fusion:")),
        Changes("tasks", "heeded, with count"),
        Refused(
            ("training.0.stagger=20 ms", "training.0.count=2"),
            "training.0.stagger: found beside backend: ",
            "given at all",
            code=2,
        ),
    ),
    JobRow("training.*.steps", HEEDED, HEEDED, only_native("steps", "1")),
    JobRow(
        "training.*.gradient",
        only_servers("gradient", "100 kB"),
        HEEDED,
        only_servers("gradient", "100 kB"),
    ),
    JobRow(
        "training.*.servers", only_servers("servers", "2"), HEEDED, only_servers("servers", "2")
    ),
    JobRow(
        "training.*.servers_on",
        only_servers("servers_on", "spread"),
        HEEDED,
        only_servers("servers_on", "spread"),
    ),
    JobRow(
        "training.*.synchronisation",
        only_servers("synchronisation", "async"),
        HEEDED,
        only_servers("synchronisation", "async"),
    ),
    JobRow("training.*.stale", only_servers("stale", "2"), HEEDED, only_servers("stale", "2")),
    *(
        JobRow(
            f"training.*.{key}",
            Changes("tasks", "heeded, without a profile", base=WHOLE_RING),
            Changes("tasks", "heeded, without a profile", base=WHOLE),
            Refused(
                ("training.0={name: job, backend: torch, bytes: 1 MB, compute: 9 ms, every: 1 s}",),
                "training.0.bytes: found beside backend: torch",
                "given at all",
                code=2,
            ),
        )
        for key in WHOLE_KEYS
    ),
    *(
        JobRow(
            f"training.*.reduce.{key}",
            only_servers("reduce", value),
            Changes("tasks", "heeded", base=SUMMED),
            only_servers("reduce", value),
        )
        for key, (value, _) in REDUCTIONS.items()
    ),
)
