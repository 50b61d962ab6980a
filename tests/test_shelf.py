"""CSV files that people put beside ours: a broken one is named, and spoils nothing else."""

import os
from collections.abc import Callable, Iterator
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from basics.errors import BadInput
from testbed.cli import catalogue
from testbed.spec import load
from tests.conftest import REPOSITORY
from workloads import profiles, sizes
from workloads.shelf import Shelf

QUICKSTART = REPOSITORY / "experiments" / "quickstart.yaml"
SIZES = "size_byte,probability\n"
LAYERS = "layer,bytes,forward_ns,backward_ns\n"
NOMINAL = "# nominal_model: 1 MB\n# nominal_iteration: 1 ms\n"


def text(content: str | bytes) -> Callable[[Path], object]:
    raw = content if isinstance(content, bytes) else content.encode()
    return lambda path: path.write_bytes(raw)


BROKEN: dict[str, tuple[Callable[[Path], object], str]] = {
    "latin-1": (text("# é\n".encode("latin-1")), "broken.csv:1: found bytes that are not UTF-8"),
    "utf-16": (text(SIZES.encode("utf-16")), "broken.csv:1: found bytes that are not UTF-8"),
    "empty": (text(""), "the first row must be"),
    "NULs": (text(b"\0" * 1000), "found '\\x00"),
    "a huge cell": (text("9" * 200_000), "broken.csv:1: not a row of a CSV file: field larger"),
    "a long cell": (text("9" * 1000), "broken.csv:1: found '999"),
    "too large": (text("#" * 4_000_001), "found more than 4 MB"),
    "quotes": (text('"x\n'), "broken.csv:1: not a row of a CSV file"),
    "a pipe": (os.mkfifo, "found a pipe, not a file"),
    "a directory": (os.mkdir, "found a directory, not a file"),
    "a device": (lambda path: path.symlink_to("/dev/zero"), "found a device, not a file"),
    "nowhere": (lambda path: path.symlink_to("/no/such/file"), "No such file"),
    "a loop": (lambda path: path.symlink_to(path), "Too many levels of symbolic links"),
}


@pytest.fixture(params=BROKEN)
def broken(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, str]:
    make, said = BROKEN[request.param]
    make(tmp_path / "broken.csv")
    return tmp_path / "broken.csv", said


@pytest.mark.timeout(20)
@pytest.mark.parametrize("read", [sizes.read, profiles.read])
def test_a_broken_file_is_one_line(
    broken: tuple[Path, str], read: Callable[[Path], object]
) -> None:
    path, said = broken
    with pytest.raises(BadInput) as caught:
        read(path)
    assert said in str(caught.value)
    assert str(caught.value).startswith(str(path))
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ("0,0\nx,1\n", "csv:3: found 'x,1'; a row is"),
        ("0,0\n5,nan\n", "csv:3: found '5,nan'"),
        ("0,0\n5,1e999\n", "csv:3: sizes|csv: the points"),
        ("0,0\n²,1\n", "csv:3: found"),
        ("0,0\n1_0,1\n", "csv:3: found"),
        ("-5,0\n5,1\n", "csv:2: found"),
    ],
)
def test_a_size_is_a_number_and_nothing_else(tmp_path: Path, rows: str, said: str) -> None:
    (tmp_path / "mine.csv").write_text(SIZES + rows)
    with pytest.raises(BadInput, match=said):
        sizes.read(tmp_path / "mine.csv")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (NOMINAL + LAYERS + "0,1" + "0" * 15 + ",1,1\n", "csv:4: every cell"),
        (LAYERS + "0,1,1,1\n", "nominal_"),
        ("# nominal_model\n" + LAYERS + "0,1,1,1\n", "nominal_"),
        (NOMINAL + LAYERS + "".join(f"{n},1,1,1\n" for n in range(10_001)), "10001 layers; 10000"),
    ],
)
def test_a_profile_is_bounded(tmp_path: Path, content: str, said: str) -> None:
    (tmp_path / "mine.csv").write_text(content)
    with pytest.raises(BadInput, match=said):
        profiles.read(tmp_path / "mine.csv")


@pytest.fixture
def beside_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Path, Path]]:
    """Both folders as they are shipped, for files of one's own."""
    folders = tmp_path / "sizes", tmp_path / "profiles"
    for module, folder in zip((sizes, profiles), folders, strict=True):
        folder.mkdir()
        for path in module.FOLDER.glob("*.csv"):
            (folder / path.name).symlink_to(path)
        monkeypatch.setattr(module, "FOLDER", folder)
        module.available.cache_clear()
    yield folders
    sizes.available.cache_clear()
    profiles.available.cache_clear()


@pytest.mark.timeout(60)
@pytest.mark.parametrize("kind", BROKEN)
def test_only_what_names_a_broken_file_is_refused(
    beside_ours: tuple[Path, Path], kind: str
) -> None:
    make, said = BROKEN[kind]
    for folder in beside_ours:
        make(folder / "broken.csv")
    assert load(QUICKSTART).name == "quickstart"
    for key in ("flows.0.sizes", "training.0.profile"):
        with pytest.raises(BadInput) as caught:
            load(QUICKSTART, [f"{key}=broken"])
        assert f"--set {key}=broken: {key}: " in str(caught.value)
        assert said in str(caught.value)
        assert "\n" not in str(caught.value)
    with pytest.raises(BadInput, match="did you mean web-search"):
        load(QUICKSTART, ["flows.0.sizes=web-serch"])


def test_the_list_says_what_is_wrong_beside_the_name(beside_ours: tuple[Path, Path]) -> None:
    for folder in beside_ours:
        (folder / "mine.csv").write_bytes(b"\xff\xfe [/red]")
        (folder / os.fsdecode(b"odd-\xff.csv")).write_bytes(b"")
    out = StringIO()
    catalogue.show(Console(file=out, width=500))
    lines = [line for line in out.getvalue().splitlines() if line.split()[:1] == ["mine"]]
    assert len(lines) == 2
    assert all("cannot be used: " in line and "mine.csv:1: found bytes" in line for line in lines)
    assert "odd-\\udcff" in out.getvalue()
    assert "web-search" in out.getvalue()
    assert "resnet50-thesis" in out.getvalue()


def test_a_shelf_reads_a_file_once_and_no_name_leads_out_of_it(tmp_path: Path) -> None:
    folder = tmp_path / "shelf"
    folder.mkdir()
    (folder / "a.csv").write_text("")
    (folder / ".#a.csv").symlink_to("editor@machine")  # the lock of an editor
    (tmp_path / "b.csv").write_text("")
    seen: list[Path] = []
    shelf = Shelf(folder, lambda path: seen.append(path) or path.name)  # type: ignore[func-returns-value]
    assert list(shelf) == ["a"]
    assert [shelf["a"], shelf["a"], len(seen)] == ["a.csv", "a.csv", 1]
    assert all(name not in shelf for name in ("../b", "", "a.csv", "a/../a"))
