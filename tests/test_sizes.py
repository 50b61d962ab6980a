"""Size distributions: the numbers that the papers and the thesis state."""

from pathlib import Path

import numpy as np
import pytest

from basics.errors import BadInput
from workloads import sizes


def test_ships_the_three_distributions_with_their_sources() -> None:
    known = sizes.available()
    assert {"web-search", "web-search-dctcp", "data-mining"} <= set(known)
    for cdf in known.values():
        assert "Source:" in cdf.source
        assert "Edit:" in cdf.source


def test_web_search_has_the_numbers_of_the_thesis() -> None:
    cdf = sizes.available()["web-search"]
    assert cdf.mean_byte == pytest.approx(1_711_550)
    assert cdf.probability_at_most(100_000) == pytest.approx(0.5417, abs=5e-5)
    assert 1 - cdf.probability_at_most(10_000_000) == pytest.approx(0.03)
    assert cdf.probability_at_most(3999) == 0
    assert cdf.probability_at_most(10**12) == 1


def test_the_unedited_web_search_starts_at_zero() -> None:
    original = sizes.available()["web-search-dctcp"].points
    assert original[0] == (0, 0.0)
    assert original[1:] == sizes.available()["web-search"].points[1:]


def test_data_mining_is_mostly_tiny_flows() -> None:
    cdf = sizes.available()["data-mining"]
    assert cdf.points[0] == (100, 0.0)
    assert cdf.points[-1] == (1_000_000_000, 1.0)
    assert cdf.probability_at_most(1100) == pytest.approx(0.5)


@pytest.mark.parametrize("name", sorted(sizes.available()))
def test_quantiles_undo_probabilities_and_give_the_mean(name: str) -> None:
    cdf = sizes.available()[name]
    u = (np.arange(200_000) + 0.5) / 200_000
    drawn = cdf.quantile(u)
    assert drawn.mean() == pytest.approx(cdf.mean_byte, rel=1e-3)
    assert np.all(np.diff(drawn) >= 0)
    for share in (0.01, 0.3, 0.95, 0.999):
        assert cdf.probability_at_most(float(cdf.quantile(np.array([share]))[0])) == pytest.approx(
            share
        )


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "first row"),
        ("size,probability\n1,0\n", "first row"),
        ("size_byte,probability\n1,0\n", "from probability 0 to probability 1"),
        ("size_byte,probability\n1,0\n5,0.5\n", "from probability 0 to probability 1"),
        ("size_byte,probability\n1,0\n1,1\n", "csv:3: sizes and probabilities"),
        ("# note\nsize_byte,probability\n1,0\nx,1\n", "csv:4"),
        ("size_byte,probability\n1,0,7\n", "csv:2: found 3 columns"),
    ],
)
def test_a_bad_file_is_refused_by_line(tmp_path: Path, text: str, reason: str) -> None:
    path = tmp_path / "mine.csv"
    path.write_text(text)
    with pytest.raises(BadInput, match=reason):
        sizes.read(path)
