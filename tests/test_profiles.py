"""Layer profiles: the thesis's rule, the shipped files, and scaling."""

from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from basics.errors import BadInput
from workloads import profiles
from workloads.profiles import Layer, Profile, thesis_layers

MS = 1_000_000


@pytest.mark.parametrize(
    ("name", "layers", "iteration_ns"),
    [("resnet50-thesis", 50, 280 * MS), ("thesis-figure-4.7", 100, 900 * MS)],
)
def test_shipped_profiles_are_the_rule(name: str, layers: int, iteration_ns: int) -> None:
    profile = profiles.load(name)
    assert profile.layers == thesis_layers(layers, 100_000_000, iteration_ns)
    assert profile.nominal_model_byte == 100_000_000
    assert profile.nominal_iteration_ns == iteration_ns
    assert "thesis" in profile.provenance


def test_resnet50_has_the_sizes_stated_by_the_thesis() -> None:
    layers = profiles.load("resnet50-thesis").layers
    assert [layer.bytes for layer in (layers[0], layers[24])] == [444_444] * 2
    assert [layer.bytes for layer in (layers[25], layers[37])] == [4 * 444_444] * 2
    assert [layer.bytes for layer in (layers[38], layers[49])] == [12 * 444_444] * 2
    assert max(layer.bytes for layer in layers) + 1 == 5_333_329  # its fusion buffer


@given(st.integers(2, 300), st.integers(10**6, 10**10), st.integers(10**6, 10**11))
def test_the_rule_as_the_facts_write_it(count: int, model_byte: int, iteration_ns: int) -> None:
    """FACTS: forward 2F/L - i*d, d = 2F/(L(L-1)); backward i*b, b = 2B/(L(L-1))."""
    forward, backward = Fraction(iteration_ns, 3), Fraction(2 * iteration_ns, 3)
    pairs = count * (count - 1)
    d, b = 2 * forward / pairs, 2 * backward / pairs
    m = 2 * model_byte // (9 * count)
    for i, layer in enumerate(thesis_layers(count, model_byte, iteration_ns)):
        last = i == count - 1
        assert layer.forward_ns == int(d if last else 2 * forward / count - i * d)
        assert layer.backward_ns == int(i * b if i else b)
        assert layer.bytes == (m if i < count / 2 else 4 * m if i <= 0.75 * count else 12 * m)


def test_scaling_to_the_nominal_sizes_changes_nothing() -> None:
    profile = profiles.load("resnet50-thesis")
    assert profile.scaled() == profile
    assert profile.scaled(100_000_000, 280 * MS) == profile


def test_scaling_multiplies_every_layer_and_rounds_down() -> None:
    tenth = profiles.load("resnet50-thesis").scaled(10_000_000, 560 * MS)
    original = profiles.load("resnet50-thesis").layers
    assert tenth.layers == tuple(
        Layer(layer.bytes // 10, layer.forward_ns * 2, layer.backward_ns * 2) for layer in original
    )
    assert tenth.total_byte == 9_822_185
    assert tenth.nominal_model_byte == 10_000_000
    assert tenth.compute_ns == 2 * profiles.load("resnet50-thesis").compute_ns


def test_a_layer_never_vanishes() -> None:
    assert {layer.bytes for layer in profiles.load("resnet50-thesis").scaled(1).layers} == {1}


def test_an_unknown_profile_lists_the_known_ones() -> None:
    with pytest.raises(BadInput, match="resnet50-thesis"):
        profiles.load("resnet51")


GOOD = (
    "# mine\n# nominal_model: 1 MB\n# nominal_iteration: 1 ms\nlayer,bytes,forward_ns,backward_ns\n"
)


def test_a_profile_is_one_file(tmp_path: Path) -> None:
    path = tmp_path / "mine.csv"
    path.write_text(GOOD + "0,10,20,30\n1,40,50,60\n")
    layers = (Layer(10, 20, 30), Layer(40, 50, 60))
    assert profiles.read(path) == Profile("mine", "mine", layers, 1_000_000, MS)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (GOOD, "needs layers"),
        (GOOD + "0,10,20,-1\n", "csv:5: every cell"),
        (GOOD + "1,10,20,30\n", "csv:5: expected layer 0"),
        (GOOD + "0,0,20,30\n", "at least 1 byte"),
        (GOOD.replace("1 MB", "1") + "0,1,2,3\n", "has no unit"),
        (GOOD.replace("# nominal_model: 1 MB\n", "") + "0,1,2,3\n", "found nothing"),
    ],
)
def test_a_bad_file_is_refused(tmp_path: Path, text: str, reason: str) -> None:
    path = tmp_path / "mine.csv"
    path.write_text(text)
    with pytest.raises(BadInput, match=reason):
        profiles.read(path)
