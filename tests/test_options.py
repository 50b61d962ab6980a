"""Options: what a topology or a policy declares is read, written and handed on by its unit."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

import topologies
from basics import options
from basics.options import Misfit, Option
from policies.link import link_policies
from testbed.spec.policy import PolicyChoice
from testbed.spec.topology import TopologySpec

COUNT = Option("how many", 1, 256, 4)
SHARE = Option("of the line", 0.001, 1, 0.5, step=None)
PERIOD = Option("how often", 1_000, 10**13, 5_000_000, unit="ns")
SIZE = Option("how much", 1, 10**12, unit="byte")
DECLARED = {"count": COUNT, "share": SHARE, "period": PERIOD, "size": SIZE}


def read(declared: options.Options, data: dict[str, object]) -> dict[str, options.Value]:
    for name, why in options.misfits(declared, data):
        raise Misfit(name, why)
    return options.readable(declared, data)


def test_values_arrive_by_names_that_say_their_unit() -> None:
    values = read(DECLARED, {"period": "20 ms", "size": "100 kB", "share": 0.25})
    assert values == {"count": 4, "share": 0.25, "period": 20_000_000, "size": 100_000}
    assert options.keywords(DECLARED, values) == {
        "count": 4,
        "share": 0.25,
        "period_ns": 20_000_000,
        "size_byte": 100_000,
    }


@given(
    count=st.integers(1, 256),
    share=st.floats(0.001, 1),
    period=st.integers(1_000, 10**13),
    size=st.integers(1, 10**12),
)
def test_what_is_written_reads_back_equal(**values: float) -> None:
    assert read(DECLARED, options.written(DECLARED, values)) == values


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        ("count", 0, "found 0; it must be a whole number, 1 to 256; 4 if left out"),
        ("count", 2.5, "found 2.5; it must be a whole number"),
        ("count", True, "found True; it must be a whole number"),
        ("count", None, "found nothing; it must be a whole number"),
        ("share", 0, "found 0; it must be a number, 0.001 to 1; 0.5 if left out"),
        ("share", float("nan"), "found nan; it must be a number"),
        ("share", "half", "found 'half'; it must be a number"),
        ("period", "1 ns", "found '1 ns'; it must be a time, 1 us to 10000 s; 5 ms if left out"),
        ("period", 20, "found 20, which has no unit"),
        ("size", "0 B", "found '0 B'; it must be a size, 1 B to 1 TB"),
    ],
)
def test_what_cannot_be_is_refused_by_its_key(key: str, value: object, says: str) -> None:
    with pytest.raises(Misfit) as caught:
        read(DECLARED, {"size": "1 MB", key: value})
    assert caught.value.key == key
    assert says in str(caught.value)


def test_no_option_hides_a_key_that_all_have() -> None:
    """Files would not know which of the two is meant."""
    for policy in link_policies().values():
        assert not policy.options.keys() & {
            field.alias or name for name, field in PolicyChoice.model_fields.items()
        }
        assert "period" in policy.options or not policy.acts
    for kind in topologies.available().values():
        assert not kind.options.keys() & {
            field.alias or name for name, field in TopologySpec.model_fields.items()
        }
