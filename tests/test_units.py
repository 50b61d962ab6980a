"""Units: what people write becomes exact integers, and comes back the same."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from basics import units

WHOLE = st.integers(0, units.LARGEST)


@pytest.mark.parametrize(
    ("parse", "text", "expected"),
    [
        (units.time_ns, "10 us", 10_000),
        (units.time_ns, "10 µs", 10_000),  # micro sign
        (units.time_ns, "10 μs", 10_000),  # Greek mu
        (units.time_ns, "10us", 10_000),
        (units.time_ns, " 0.5  s ", 500_000_000),
        (units.time_ns, "1e3 ns", 1000),
        (units.time_ns, "2 min", 120_000_000_000),
        (units.time_ns, "0 s", 0),
        (units.size_byte, "10 MB", 10_000_000),
        (units.size_byte, "0.54 MB", 540_000),
        (units.size_byte, "5.34 MB", 5_340_000),
        (units.size_byte, "1 kB", 1000),
        (units.size_byte, "1 KiB", 1024),
        (units.size_byte, "64 MiB", 64 * 2**20),
        (units.size_byte, "1.5 GiB", 3 * 2**29),
        (units.rate_bps, "1 Gbit/s", 10**9),
        (units.rate_bps, "2.5 Gbps", 2_500_000_000),
        (units.rate_bps, "100 kbit/s", 100_000),
        (units.rate_bps, "7 Mbit/s", 7_000_000),
        (units.packets, "1000 packets", 1000),
        (units.packets, "1 packet", 1),
        (units.share, "6.25 %", 0.0625),
        (units.share, "100%", 1.0),
        (units.change, "-10 %", -0.1),
        (units.change, "+150 %", 1.5),
        (units.per_second, "46 per second", 46.0),
        (units.per_second, "0.5 / s", 0.5),
    ],
)
def test_reads_what_people_write(
    parse: Callable[[object], float], text: str, expected: float
) -> None:
    assert parse(text) == expected


@pytest.mark.parametrize(
    "parse",
    [
        units.time_ns,
        units.size_byte,
        units.rate_bps,
        units.share,
        units.packets,
        units.per_second,
    ],
)
@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (4, "found 4, which has no unit"),
        (4.5, "found 4.5, which has no unit"),
        (float("nan"), "found nan"),
        ("4", "found '4', which has no unit"),
        ("4 parsecs", "unknown unit 'parsecs'"),
        ("ten s", "does not start with a number"),
        ("nan s", "does not start with a number"),
        ("inf %", "does not start with a number"),
        ("", "does not start with a number"),
        (None, "found nothing"),
        (True, "found True"),
        ([1], "found a list"),
        ("1e999999999 s", "found '1e999999999 s'"),
    ],
)
def test_refuses_with_what_was_found_and_an_example(
    parse: Callable[[object], object], value: object, reason: str
) -> None:
    with pytest.raises(ValueError, match=r"(?s).") as caught:
        parse(value)
    message = str(caught.value)
    if "e999999999" not in reason or parse is units.time_ns:
        assert reason in message
    assert "write" in message
    assert " like " in message


@pytest.mark.parametrize(
    ("parse", "text", "reason"),
    [
        (units.time_ns, "-1 s", "negative"),
        (units.size_byte, "-1 MB", "negative"),
        (units.rate_bps, "-1 Gbit/s", "negative"),
        (units.packets, "-1 packets", "negative"),
        (units.per_second, "-1 per second", "negative"),
        (units.share, "-1 %", "0 % to 100 %"),
        (units.share, "101 %", "0 % to 100 %"),
        (units.time_ns, "0.5 ns", "not a whole number of ns"),
        (units.size_byte, "1.5 B", "not a whole number of B"),
        (units.time_ns, "1e99 s", "too large"),
        (units.time_ns, "1" * 500 + " s", "beyond all measure"),
        (units.rate_bps, "1 GB/s", "unknown unit 'GB/s'"),
        (units.size_byte, "1 KB", "unknown unit 'KB'"),
    ],
)
def test_refuses_impossible_values(
    parse: Callable[[object], object], text: str, reason: str
) -> None:
    with pytest.raises(ValueError, match=reason):
        parse(text)


@pytest.mark.parametrize(
    ("shape", "value", "expected"),
    [
        (units.format_time, 480_000_000, "480 ms"),
        (units.format_time, 1_500_000_000, "1.5 s"),
        (units.format_time, 0, "0 s"),
        (units.format_size, 10_000_000, "10 MB"),
        (units.format_rate, 10**10, "10 Gbit/s"),
        (units.format_packets, 1000, "1000 packets"),
        (units.format_per_second, 46.0, "46 per second"),
        (units.format_share, 0.0625, "6.25 %"),
        (units.format_change, -0.1, "-10 %"),
    ],
)
def test_writes_what_people_read(
    shape: Callable[[float], str], value: float, expected: str
) -> None:
    assert shape(value) == expected


@given(WHOLE)
def test_every_integer_survives_writing_and_reading(value: int) -> None:
    assert units.time_ns(units.format_time(value)) == value
    assert units.size_byte(units.format_size(value)) == value
    assert units.rate_bps(units.format_rate(value)) == value
    assert units.packets(units.format_packets(value)) == value


@given(st.floats(1e-60, 1) | st.just(0.0))
def test_every_share_and_rate_survives_writing_and_reading(value: float) -> None:
    assert units.share(units.format_share(value)) == value
    assert units.change(units.format_change(-value)) == -value
    assert units.per_second(units.format_per_second(value * 1e9)) == value * 1e9


@given(st.text() | st.floats() | st.integers() | st.none() | st.binary())
def test_nonsense_is_a_value_error_and_nothing_else(value: object) -> None:
    for parse in (units.time_ns, units.size_byte, units.share, units.per_second, units.packets):
        message = ""
        try:
            assert parse(value) >= 0
        except ValueError as error:
            message = str(error)
        assert len(message) < 400


def test_a_scale_is_taken_as_it_is_written() -> None:
    assert units.multiplied(100_000, 0.1) == 10_000
    assert units.multiplied(10_000_000, 0.3) == 3_000_000
