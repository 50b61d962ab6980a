"""A few hundred damaged files; `python -m tests.fuzz --count 6000` reads more of them.

What once went wrong is kept as a file of its own in test_bad_files.py and test_shelf.py: a mutant's
number means another file as soon as an experiment is added.
"""

from itertools import count, islice
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from basics.errors import BadInput
from testbed.spec.yaml_nodes import MOST_NODES, Node, Unreadable, composed
from tests import fuzz
from tests.conftest import giveway

MUTANTS, IN_A_TEST = 400, 100


@pytest.mark.parametrize("first", range(0, MUTANTS, IN_A_TEST))
def test_a_damaged_file_is_read_or_refused(first: int, tmp_path: Path) -> None:
    found = [fuzz.outcome(number, tmp_path) for number in range(first, first + IN_A_TEST)]
    assert [one for one in found if one.wrong] == []
    assert {one.said for one in found} == {"loaded", "refused"}


def test_damaged_csv_files_are_read_or_refused(tmp_path: Path) -> None:
    found = [fuzz.outcome(number, tmp_path, fuzz.CSV) for number in range(200)]
    assert [one for one in found if one.wrong] == []


def test_a_traceback_and_a_hang_would_be_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_path: Path) -> None:
        raise KeyError("oops")

    def endless(_path: Path) -> None:
        while True:
            pass

    def two_lines(_path: Path) -> None:
        raise BadInput("fine\nnot \x07 fine")

    monkeypatch.setattr(fuzz, "LIMIT_S", 0.1)
    for reader, said in ((broken, "traceback"), (endless, "slow"), (two_lines, "refused")):
        monkeypatch.setattr(fuzz, "reader", lambda _original, reader=reader: reader)
        found = fuzz.outcome(0, tmp_path)
        assert (found.said, bool(found.wrong)) == (said, True)


def test_the_command_refuses_a_damaged_file_as_the_loader_does(tmp_path: Path) -> None:
    refused = (n for n in count() if fuzz.outcome(n, tmp_path, fuzz.YAML[:1]).said == "refused")
    for number in islice(refused, 4):
        path = tmp_path / "mine.yaml"
        path.write_bytes(fuzz.mutant(number, fuzz.YAML[:1])[1])
        done = giveway("run", path, "--engine", "fluid", "--out", tmp_path / "out", wait=False)
        assert done.returncode == 2, done.stderr
        assert all(line.startswith("giveway: ") for line in done.stderr.splitlines())


TEXTS = st.text(
    st.sampled_from(list("ab1:,-[]{}&*!|>'\"#%@`<=~? \n\t")) | st.characters(), max_size=60
)


@given(TEXTS)
@settings(deadline=None, max_examples=300, suppress_health_check=[HealthCheck.too_slow])
def test_any_text_is_data_with_lines_or_unreadable(text: str) -> None:
    try:
        root = composed(text.encode("utf-8", "replace").decode())
    except Unreadable:
        return
    if root is not None:
        assert all(1 <= node.line <= text.count("\n") + len(text) + 1 for node in nodes(root))
        assert len(list(nodes(root))) <= root.size <= MOST_NODES


def nodes(node: Node) -> list[Node]:
    return [node] + [inner for _, below in node.below.values() for inner in nodes(below)]
