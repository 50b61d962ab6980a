"""`giveway profile`: cutting an iteration into layers, the file it leaves, what can go wrong."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from basics.errors import BadInput, CannotRun, RunFailed
from testbed.cli import commands
from tests.conftest import REPOSITORY, giveway
from workloads import profiler, profiles
from workloads.profiler import Order, Stopwatched
from workloads.profiles import Layer
from workloads.stopwatch import Lap, Stopwatch, pieces_from_starts, pieces_to_ends

MS = 1_000_000

# ---- pure: no torch -----------------------------------------------------------------------------


@given(st.lists(st.integers(10, 90), min_size=1, max_size=20).map(sorted))
def test_the_pieces_add_up_to_the_whole(moments: list[int]) -> None:
    who = list(enumerate(moments))
    for cut in (pieces_from_starts, pieces_to_ends):
        pieces = cut(who, 0, 100)
        assert [index for index, _ in pieces] == list(range(len(moments)))
        assert sum(length for _, length in pieces) == 100
        assert all(length >= 0 for _, length in pieces)


def test_work_between_layers_goes_to_the_neighbour() -> None:
    """Forward to the layer before it; backward to the layer whose gradient it delays."""
    assert pieces_from_starts([(0, 5), (1, 20)], 0, 100) == [(0, 20), (1, 80)]
    assert pieces_to_ends([(1, 30), (0, 90)], 0, 100) == [(1, 30), (0, 70)]


def lap(*layers: tuple[int, int]) -> Lap:
    forward, backward = zip(*layers, strict=True)
    whole = sum(forward) + sum(backward)
    return Lap(tuple(range(len(layers))), forward, backward, whole, None)


def test_a_disturbed_lap_does_not_count() -> None:
    laps = [lap((10, 20), (30, 40)), lap((11, 21), (31, 41)), lap((9999, 9999), (32, 42))]
    assert profiler.medians([4, 8], laps) == (Layer(4, 11, 21), Layer(8, 31, 41))


MEASURED = Stopwatched(
    title="A model",
    layers=(Layer(4_000_000, 30 * MS, 50 * MS), Layer(6_000_000, 40 * MS, 80 * MS)),
    laps_ns=(201 * MS, 200 * MS, 230 * MS),
    bare_ns=(190 * MS, 195 * MS, 999 * MS),
    between_share=0.126,
    software="torch 1.2.3, Python 3.0",
)


def test_unscaled_the_nominal_sizes_are_what_was_measured() -> None:
    found = profiler.as_profile(Order("vgg16", 4, 3), "mine", MEASURED)
    assert (found.nominal_model_byte, found.nominal_iteration_ns) == (10_000_000, 200 * MS)
    assert found.layers == MEASURED.layers
    assert "measured on a CPU, not on a GPU; not scaled" in found.provenance.splitlines()[0]
    for fact in ("4 samples", "torch 1.2.3", "201 ms", "195 ms", "13 %"):
        assert fact in found.provenance
    assert "giveway profile --model vgg16 --batch 4 --repeats 3\n" in found.provenance + "\n"


def test_scaled_it_says_from_what_to_what() -> None:
    found = profiler.as_profile(Order("vgg16", 4, 3, 280 * MS), "mine", MEASURED)
    assert found.nominal_iteration_ns == found.compute_ns == 280 * MS
    assert found.total_byte == 10_000_000
    assert found.layers[0].forward_ns == 42 * MS
    assert "SCALED from 200 ms to 280 ms" in found.provenance.splitlines()[0]
    assert "--scale-to 280ms" in found.provenance


def test_the_file_reads_back_as_it_was(tmp_path: Path) -> None:
    found = profiler.as_profile(Order("vgg16", 4, 3, 123_456_789), "mine", MEASURED)
    profiles.write(tmp_path / "mine.csv", found)
    assert profiles.read(tmp_path / "mine.csv") == found
    assert [path.name for path in tmp_path.iterdir()] == ["mine.csv"]


@given(
    st.lists(st.builds(Layer, *[st.integers(1, 10**12)] * 3), min_size=1, max_size=9),
    st.integers(1, 10**12),
)
def test_any_profile_reads_back(
    tmp_path_factory: pytest.TempPathFactory, layers: list[Layer], nominal: int
) -> None:
    path = tmp_path_factory.mktemp("profile") / "any.csv"
    whole = profiles.Profile("any", "one line\nanother", tuple(layers), nominal, nominal + 1)
    profiles.write(path, whole)
    assert profiles.read(path) == whole


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--model", "resnet-51"], "did you mean resnet50"),
        (["--model", "transfomer"], "did you mean transformer"),
        (["--batch", "0"], "--batch: found 0"),
        (["--repeats", "0"], "--repeats: found 0"),
        (["--scale-to", "280"], "--scale-to: found '280', which has no unit"),
        (["--scale-to", "0ms"], "--scale-to"),
        (["--out", "no-such-folder/x.csv"], "--out no-such-folder/x.csv"),
        (["--out", "profile.txt"], ".csv"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(arguments: list[str], said: str) -> None:
    done = giveway("profile", "--model", "resnet32", "--out", "x.csv", *arguments)
    assert done.returncode == 2
    assert said in done.stderr
    assert done.stderr.startswith("giveway: ")
    assert done.stderr.count("\n") == 1
    assert not (REPOSITORY / "x.csv").exists()


def test_without_torch_it_says_how_to_get_it(tmp_path: Path) -> None:
    code = (
        "import sys; sys.modules['torch'] = None; sys.argv[0] = 'giveway'; "
        "from testbed.cli.commands import main; main()"
    )
    arguments = ["profile", "--model", "vgg16", "--out", str(tmp_path / "a.csv")]
    command = [sys.executable, "-c", code, *arguments]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert done.returncode == 3
    assert done.stderr == (
        "giveway: giveway profile needs torch, which is not installed: run `make torch`\n"
    )
    assert list(tmp_path.iterdir()) == []


def test_interrupted_it_writes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(profiler, "measure", interrupted)
    arguments = ["profile", "--model", "vgg16", "--out", str(tmp_path / "a.csv")]
    done = CliRunner().invoke(commands.app, arguments)
    assert done.exit_code == 130
    assert "nothing was written" in done.stderr
    assert list(tmp_path.iterdir()) == []


# ---- the profiles that ship ---------------------------------------------------------------------

SHIPPED = {
    "resnet32-cpu": (63, 4 * 464_154, 40_004_625),
    "resnet50-cpu": (107, 4 * 25_557_032, 280 * MS),
    "transformer-cpu": (40, 4 * 27_369_472, 310 * MS),
    "vgg16-cpu": (16, 4 * 138_357_544, 1550 * MS),
}


def test_every_measured_profile_that_ships_is_held_here() -> None:
    ships = {name for name in profiles.available() if name.endswith("-cpu")}
    assert ships == set(SHIPPED) | {"vgg19-cpu"}


def test_vgg19_is_vgg16_with_layers_of_its_own_kind() -> None:
    measured, made = profiles.load("vgg16-cpu"), profiles.load("vgg19-cpu")
    assert (len(made.layers), made.total_byte) == (19, 4 * 143_667_240)
    assert set(made.layers) == set(measured.layers)
    assert "not measured as a whole" in made.provenance


@pytest.mark.parametrize("name", SHIPPED)
def test_a_shipped_profile_is_not_taken_for_a_gpus(name: str) -> None:
    layers, model_byte, iteration_ns = SHIPPED[name]
    found = profiles.load(name)
    assert len(found.layers) == layers
    assert found.total_byte == found.nominal_model_byte == model_byte
    assert found.nominal_iteration_ns == iteration_ns
    assert 0 <= iteration_ns - found.compute_ns <= 2 * layers  # rounded down, layer by layer
    scaled = "not scaled" if name == "resnet32-cpu" else "SCALED from"
    assert f"measured on a CPU, not on a GPU; {scaled}" in found.provenance.splitlines()[0]
    assert "giveway profile --model" in found.provenance


def test_list_shows_it_as_a_cpus() -> None:
    listed = " ".join(giveway("list", "profiles").stdout.split())
    assert (
        listed.count("measured on a CPU, not on a GPU") == len(SHIPPED) + 1
    )  # and what is made of one


# ---- with torch ---------------------------------------------------------------------------------


def tiny_network() -> Any:
    """Heavy enough for hooks not to matter; the first layer is by far the heaviest."""
    from torch import nn

    return nn.Sequential(
        nn.Linear(800, 1200), nn.ReLU(), nn.Linear(1200, 300, bias=False), nn.ReLU(),
        nn.Sequential(nn.Linear(300, 200), nn.LayerNorm(200)), nn.Linear(200, 10),
    )  # fmt: skip


def tiny_batch(size: int, draw: Any) -> Any:
    import torch

    samples = torch.randn(size, 800, generator=draw)
    return samples, torch.randint(10, (size,), generator=draw)


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> str:
    from workloads import models

    monkeypatch.setitem(models.MODELS, "tiny", models.Model("Tiny", tiny_network, tiny_batch))
    monkeypatch.setattr(profiler, "MODELS", (*profiler.MODELS, "tiny"))
    return "tiny"


@pytest.mark.torch
def test_the_layers_add_up_to_the_iteration_and_have_the_models_bytes(tiny: str) -> None:
    order = Order(tiny, 256, 15)
    counted: list[None] = []
    measured = profiler.measure(order, lambda: counted.append(None))
    assert len(counted) == profiler.steps(order)
    found = profiler.as_profile(order, "tiny", measured)
    assert found.compute_ns == pytest.approx(median(measured.bare_ns), rel=0.2)
    floats = [800 * 1200 + 1200, 1200 * 300, 300 * 200 + 200, 400, 200 * 10 + 10]
    assert [layer.bytes for layer in found.layers] == [4 * count for count in floats]
    assert 0 < measured.between_share < 0.5


@pytest.mark.torch
def test_the_heaviest_layer_takes_longest_in_both_directions(tiny: str) -> None:
    layers = profiler.measure(Order(tiny, 256, 9), lambda: None).layers
    assert layers[0].forward_ns == max(layer.forward_ns for layer in layers)
    assert layers[0].backward_ns > layers[2].backward_ns + layers[3].backward_ns
    assert all(layer.forward_ns > 0 and layer.backward_ns > 0 for layer in layers)


@pytest.mark.torch
def test_a_layer_without_a_gradient_for_its_input_is_timed_to_its_end() -> None:
    """The trap: torch fires the full backward hook of such a layer before the layer works."""
    import torch
    from torch import nn

    class TwoInputs(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.light = nn.Linear(2, 1000)
            self.heavy = nn.Linear(2000, 1000)

        def forward(self, x: Any) -> Any:
            return self.light(x[:, :2]) + self.heavy(x)

    network, x = TwoInputs(), torch.ones(200, 2000)
    with profiler.one_thread(torch), Stopwatch(network) as watch:
        laps = [watch.lap(lambda: network(x).sum()) for _ in range(5)]
    light, heavy = profiler.medians([1, 1], laps)
    assert heavy.backward_ns > 2 * light.backward_ns


@pytest.mark.torch
def test_measuring_leaves_torchs_state_alone(tiny: str) -> None:
    import torch

    threads, state = torch.get_num_threads(), torch.random.get_rng_state()
    profiler.measure(Order(tiny, 2, 1), lambda: None)
    assert torch.get_num_threads() == threads
    assert torch.equal(torch.random.get_rng_state(), state)


@pytest.mark.torch
def test_layers_come_in_the_order_in_which_they_run_and_hooks_go_away() -> None:
    import torch
    from torch import nn

    class Backwards(nn.Module):
        """Made in another order than run."""

        def __init__(self) -> None:
            super().__init__()
            self.last = nn.Linear(3, 2)
            self.first = nn.Linear(5, 3)

        def forward(self, x: Any) -> Any:
            return self.last(self.first(x))

    network = Backwards()
    with Stopwatch(network, inside=True) as watch:
        timed = watch.lap(lambda: network(torch.ones(1, 5)).sum())
    assert [list(watch.layers)[index] for index in timed.order] == ["first", "last"]
    assert sum(timed.forward_ns) + sum(timed.backward_ns) == timed.whole_ns
    assert timed.inside_ns is not None
    assert 0 < timed.inside_ns < timed.whole_ns
    hooks = ("_forward_pre_hooks", "_forward_hooks", "_backward_pre_hooks", "_backward_hooks")
    assert not any(getattr(layer, hook) for layer in network.modules() for hook in hooks)
    assert not any(parameter._post_accumulate_grad_hooks for parameter in network.parameters())


@pytest.mark.torch
@pytest.mark.parametrize("times", [0, 2])
def test_a_layer_that_does_not_run_once_is_refused(
    times: int, tiny: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from torch import nn

    from workloads import models

    class Repeated(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = nn.Linear(800, 10)
            self.odd = nn.Linear(10, 10)

        def forward(self, x: Any) -> Any:
            x = self.first(x)
            for _ in range(times):
                x = self.odd(x)
            return x

    monkeypatch.setitem(models.MODELS, tiny, replace(models.MODELS[tiny], network=Repeated))
    with pytest.raises(RunFailed, match=f"tiny: layer odd ran {times} times"):
        profiler.measure(Order(tiny, 2, 1), lambda: None)


@pytest.mark.torch
def test_a_batch_beyond_memory_is_refused_before_it_is_made() -> None:
    with pytest.raises(CannotRun, match="take a smaller one"):
        profiler.measure(Order("vgg16", profiler.MOST, 1), lambda: None)


@pytest.mark.torch
def test_the_command_end_to_end(tmp_path: Path) -> None:
    out = tmp_path / "mine.csv"
    wanted = ("--model", "resnet32", "--batch", "2", "--repeats", "2", "--scale-to", "280ms")
    done = giveway("profile", *wanted, "--out", out)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert "profile: mine" in done.stdout
    found = profiles.read(out)
    assert found.total_byte == 4 * 464_154
    assert found.nominal_iteration_ns == 280 * MS
    assert found.compute_ns == pytest.approx(280 * MS, rel=1e-6)
    assert [layer.bytes for layer in found.layers[:3]] == [4 * 27 * 16, 4 * 32, 4 * 9 * 16 * 16]


def test_an_order_is_checked_wherever_it_is_made() -> None:
    with pytest.raises(BadInput, match="known: resnet18"):
        Order("?", 1, 1)
