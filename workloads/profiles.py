"""What one training iteration is made of: bytes and compute times layer by layer, from a CSV.

A profile is one file in `workloads/profiles/`: `#` lines for its provenance and its nominal
sizes, then one row a layer, from the input to the output. Nominal means what the profile is
called, not what its layers add up to: the thesis's rule for "100 MB" makes 98.2 MB of layers, and
scaling keeps that ratio.
"""

import re
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from basics import units
from basics.errors import BadInput
from basics.files import write_whole
from basics.hints import nearest
from workloads.shelf import Shelf, commented_csv

FOLDER = Path(__file__).with_name("profiles")
HEADER = ["layer", "bytes", "forward_ns", "backward_ns"]
MOST_LAYERS = 10_000


@dataclass(frozen=True)
class Layer:
    bytes: int
    forward_ns: int
    backward_ns: int


@dataclass(frozen=True)
class Profile:
    name: str
    provenance: str
    layers: tuple[Layer, ...]
    nominal_model_byte: int
    nominal_iteration_ns: int

    @property
    def total_byte(self) -> int:
        """The gradient bytes of one iteration, as really sent."""
        return sum(layer.bytes for layer in self.layers)

    @property
    def compute_ns(self) -> int:
        """The compute time of one iteration, as really slept."""
        return sum(layer.forward_ns + layer.backward_ns for layer in self.layers)

    def forward_only(self) -> "Profile":
        """What infers: no backward pass takes any time."""
        return replace(self, layers=tuple(replace(layer, backward_ns=0) for layer in self.layers))

    def scaled(self, model_byte: int | None = None, iteration_ns: int | None = None) -> "Profile":
        """This profile for another nominal model size and iteration time.

        Every layer is multiplied by asked/nominal and rounded down; a layer keeps at least a byte.
        """
        new_byte = self.nominal_model_byte if model_byte is None else model_byte
        new_ns = self.nominal_iteration_ns if iteration_ns is None else iteration_ns
        layers = tuple(
            Layer(
                bytes=max(1, layer.bytes * new_byte // self.nominal_model_byte),
                forward_ns=layer.forward_ns * new_ns // self.nominal_iteration_ns,
                backward_ns=layer.backward_ns * new_ns // self.nominal_iteration_ns,
            )
            for layer in self.layers
        )
        return replace(
            self, layers=layers, nominal_model_byte=new_byte, nominal_iteration_ns=new_ns
        )


@cache
def available() -> Shelf[Profile]:
    """Every profile in the folder by the name used in experiment files."""
    return Shelf(FOLDER, read)


def load(name: str) -> Profile:
    """The profile of this name. Raises BadInput that lists the known ones."""
    known = available()
    if name not in known:
        raise BadInput(
            f"no profile {units.shown(name)}{nearest(name, known)}; `giveway profile` makes one"
        )
    return known[name]


def read(path: Path) -> Profile:
    comments, rows = commented_csv(path, HEADER)
    nominal = {key: text for key, _, text in (line.partition(": ") for line in comments)}
    if len(rows) > MOST_LAYERS:
        raise BadInput(f"{path}: found {len(rows)} layers; {MOST_LAYERS} are the most")
    layers = []
    for number, (line, cells) in enumerate(rows):
        if not all(re.fullmatch("[0-9]{1,15}", cell) for cell in cells):
            raise BadInput(f"{path}:{line}: every cell must be a whole number of at most 15 digits")
        layer, *values = map(int, cells)
        if layer != number or values[0] < 1:
            raise BadInput(f"{path}:{line}: expected layer {number} with at least 1 byte")
        layers.append(Layer(*values))
    try:
        model_byte = units.size_byte(nominal.get("nominal_model"))
        iteration_ns = units.time_ns(nominal.get("nominal_iteration"))
    except ValueError as error:
        raise BadInput(f"{path}: a `# nominal_…: ` line: {error}") from None
    if not layers or not model_byte or not iteration_ns:
        raise BadInput(f"{path}: a profile needs layers and nominal sizes above zero")
    provenance = "\n".join(line for line in comments if not line.startswith("nominal_"))
    return Profile(path.stem, provenance, tuple(layers), model_byte, iteration_ns)


def write(path: Path, profile: Profile) -> None:
    """Leave a file that `read` understands; a half-written one is never seen under this name."""
    nominal = [
        f"nominal_model: {units.format_size(profile.nominal_model_byte)}",
        f"nominal_iteration: {units.format_time(profile.nominal_iteration_ns)}",
    ]
    rows = [
        f"{number},{layer.bytes},{layer.forward_ns},{layer.backward_ns}"
        for number, layer in enumerate(profile.layers)
    ]
    comments = [f"# {line}" for line in (*profile.provenance.splitlines(), *nominal)]
    write_whole(path, "\n".join([*comments, ",".join(HEADER), *rows]) + "\n")


def thesis_layers(layers: int, model_byte: int, iteration_ns: int) -> tuple[Layer, ...]:
    """The layer rule of "Making DDNNs Friendlier In The Data Center" (ETH 2020).

    Sizes step up (m, 4m, 12m) at the half and after three quarters of the layers. A third of the
    time is forward, falling linearly with the layer; two thirds are backward, rising with it. The
    rule's zeros (forward of the last layer, backward of the first) are one step instead. Exact
    fractions are rounded down to whole nanoseconds.
    """
    unit_byte = 2 * model_byte // (9 * layers)
    steps = 3 * layers * (layers - 1)  # a step is 2T/steps forward and 4T/steps backward

    def size(i: int) -> int:
        if 2 * i < layers:
            return unit_byte
        return 4 * unit_byte if 4 * i <= 3 * layers else 12 * unit_byte

    return tuple(
        Layer(
            bytes=size(i),
            forward_ns=2 * iteration_ns * max(1, layers - 1 - i) // steps,
            backward_ns=4 * iteration_ns * max(1, i) // steps,
        )
        for i in range(layers)
    )
