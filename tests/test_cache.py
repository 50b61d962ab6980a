"""The cache is a place that only root and the user can put something in, and damage is no news."""

import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import gettempdir

import pytest

from basics.errors import CannotRun
from basics.files import digest_of
from testbed import cache
from testbed.realtime import capacity
from testbed.virtual import build
from tests.conftest import REPOSITORY

SCRIPT = REPOSITORY / "scripts" / "cache.sh"
STRANGER = 65534


def by_python(path: Path | str) -> str | None:
    """What is said against a cache; None if nothing is."""
    try:
        cache.folder()
    except CannotRun as why:
        return str(why)
    return None


def by_shell(path: Path | str) -> str | None:
    done = subprocess.run([SCRIPT], capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return None
    assert done.returncode == 3
    assert done.stderr.startswith("giveway: ")
    assert done.stderr.count("\n") == 1
    return done.stderr.removeprefix("giveway: ").strip()


Judge = Callable[[Path | str], str | None]


@pytest.fixture(params=[by_python, by_shell], ids=["python", "shell"])
def judge(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Judge:
    """The rule as Python and as a shell script: one judgement."""

    def judged(path: Path | str) -> str | None:
        monkeypatch.setenv("GIVEWAY_CACHE", str(path))
        verdict: str | None = request.param(path)
        return verdict

    return judged


def folder(path: Path, mode: int = 0o755, owner: int | None = None) -> Path:
    path.mkdir(parents=True, exist_ok=True)
    path.chmod(mode)
    if owner is not None:
        os.chown(path, owner, -1)
    return path


def test_a_folder_of_ones_own_is_taken(judge: Judge, tmp_path: Path) -> None:
    assert judge(folder(tmp_path / "mine")) is None
    assert judge(tmp_path / "not" / "there" / "yet") is None
    assert judge(f"{tmp_path}/mine/../mine/") is None


def test_a_folder_that_others_may_write_to_is_refused(judge: Judge, tmp_path: Path) -> None:
    for mode in (0o777, 0o1777, 0o775 if os.geteuid() else 0o757):
        where = folder(tmp_path / "open", mode)
        said = judge(where)
        assert said is not None
        assert f"others may write to {where}" in said
        assert f"chmod go-w {where}" in said
        assert "GIVEWAY_CACHE" in said


def test_so_is_one_below_such_a_folder(judge: Judge, tmp_path: Path) -> None:
    folder(tmp_path / "open" / "mine")
    folder(tmp_path / "open", 0o777)
    said = judge(tmp_path / "open" / "mine")
    assert said is not None
    assert f"others may write to {tmp_path / 'open'}," in said


def test_but_not_below_a_sticky_one(judge: Judge, tmp_path: Path) -> None:
    folder(tmp_path / "tmp" / "mine")
    folder(tmp_path / "tmp", 0o1777)
    assert judge(tmp_path / "tmp" / "mine") is None


def test_a_private_group_is_nobody_else(judge: Judge, tmp_path: Path) -> None:
    where = folder(tmp_path / "mine", 0o775)  # root's group has root's name
    os.chown(where, -1, os.getegid())
    assert judge(where) is None
    if os.geteuid() == 0:
        os.chown(where, -1, 100)
        assert "others may write" in (judge(where) or "")


@pytest.mark.root
@pytest.mark.parametrize("whose", ["mine", "parent", "link", "behind a link", "below"])
def test_what_belongs_to_somebody_else_is_refused(judge: Judge, tmp_path: Path, whose: str) -> None:
    parent = tmp_path / "parent"
    mine = folder(parent / "mine")
    asked = mine
    theirs = {"mine": mine, "parent": parent}.get(whose)
    if whose == "link":
        asked = theirs = tmp_path / "link"
        asked.symlink_to(mine)
    elif whose == "behind a link":
        theirs = folder(tmp_path / "theirs")
        (theirs / "way").symlink_to(parent)
        asked = tmp_path / "first"
        asked.symlink_to("theirs/way/mine")
    elif whose == "below":
        theirs, asked = mine, mine / "not" / "there"
    assert theirs is not None
    os.chown(theirs, STRANGER, -1, follow_symlinks=False)
    said = judge(asked)
    assert said is not None
    assert f"{theirs} belongs to nobody" in said


def test_a_sticky_folder_behind_a_link_is_no_cache(judge: Judge, tmp_path: Path) -> None:
    folder(tmp_path / "tmp", 0o1777)
    (tmp_path / "link").symlink_to("tmp")
    assert f"others may write to {tmp_path / 'tmp'}," in (judge(tmp_path / "link") or "")


def test_links_in_a_circle_are_said(judge: Judge, tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    assert judge(tmp_path / "a") is not None


def test_a_tilde_is_the_home_folder(
    judge: Judge, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder(tmp_path / "cache", 0o777)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert str(tmp_path / "cache") in (judge("~/cache") or "")
    assert "no such home folder" in (judge("~no-such-user-at-all/cache") or "")


# What is said on the command line


def run_with(variables: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "testbed", *arguments],
        cwd=REPOSITORY, env={**os.environ, **variables}, capture_output=True, text=True,
        timeout=100, check=False,
    )  # fmt: skip


@pytest.mark.parametrize("engine", ["fluid", "virtual", "auto"])
def test_every_user_of_the_cache_goes_by_the_rule(
    engine: str, small_experiment: Path, tmp_path: Path
) -> None:
    where = folder(tmp_path / "open", 0o777)
    out = tmp_path / "out"
    plain = ("--set", "training.0.check=false")  # a simulation adds nothing up
    run = ("run", str(small_experiment), "--engine", engine, "--out", str(out), *plain)
    done = run_with({"GIVEWAY_CACHE": str(where)}, *run)
    assert (done.returncode, done.stdout) == (3, "")
    assert f"others may write to {where}" in done.stderr
    assert done.stderr.count("\n") == 1
    assert not out.exists()
    assert list(where.iterdir()) == []


def test_doctor_says_what_is_wrong_with_the_cache(tmp_path: Path) -> None:
    where = folder(tmp_path / "open", 0o777)
    done = run_with({"GIVEWAY_CACHE": str(where), "COLUMNS": "500"}, "doctor")
    assert done.stderr == ""
    assert f"chmod go-w {where}" in done.stdout


@pytest.mark.parametrize("script", ["debian.sh", "docker-engine.sh"])
def test_scripts_go_by_it_too(script: str, tmp_path: Path) -> None:
    where = folder(tmp_path / "open", 0o777)
    command = [REPOSITORY / "scripts" / script, "status"]
    done = subprocess.run(
        command, env={**os.environ, "GIVEWAY_CACHE": str(where)}, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (3, "")
    assert f"others may write to {where}" in done.stderr


def test_no_script_names_the_cache_by_itself() -> None:
    for script in (REPOSITORY / "scripts").glob("*.sh"):
        if script.name != "cache.sh":
            assert "GIVEWAY_CACHE:-" not in script.read_text(), script.name


# Damage is no news


def a_kernel(place: Path) -> Path:
    """A folder of the cache with what a build leaves, but for the program's content."""
    version = "7.2.0"
    made = folder(place / build._name(version))
    (made / "linux").write_text("#!/bin/sh\n")
    (made / "linux").chmod(0o755)
    (made / build.DIGEST).write_text(digest_of(made / "linux"))
    facts = {"version": version, "config_digest": "", "built_s": 1.0}
    (made / "kernel.json").write_text(json.dumps(facts))
    return made


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("kernel.json", ""),
        ("kernel.json", '{"version": '),
        ("kernel.json", "[]"),
        ("kernel.json", "{}"),
        ("kernel.json", '{"version": 7, "config_digest": "", "built_s": 1.0}'),
        ("kernel.json", '{"version": null, "config_digest": "", "built_s": 1.0}'),
        ("kernel.json", "\0\xff"),
        ("linux", "#!/bin/sh\n\n"),
        ("linux", ""),
    ],
)
def test_a_damaged_kernel_is_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, content: str
) -> None:
    monkeypatch.setenv("GIVEWAY_CACHE", str(tmp_path))
    made = a_kernel(tmp_path)
    kernel = build.find()
    assert kernel is not None
    assert kernel.program == made / "linux"
    (made / name).write_bytes(content.encode("latin-1"))
    assert build.find() is None


@pytest.mark.parametrize("broken", ["gone", "not executable", "cut short, of an older build"])
def test_a_kernel_without_its_program_is_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    monkeypatch.setenv("GIVEWAY_CACHE", str(tmp_path))
    made = a_kernel(tmp_path)
    if broken == "gone":
        (made / "linux").unlink()
    elif broken == "not executable":
        (made / "linux").chmod(0o644)
    else:
        (made / build.DIGEST).unlink()
        assert build.find() is not None
        (made / "linux").write_text("")
    assert build.find() is None


@pytest.mark.root
def test_a_kernel_that_somebody_planted_is_not_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIVEWAY_CACHE", str(tmp_path))
    os.chown(a_kernel(tmp_path) / "linux", STRANGER, -1)
    with pytest.raises(CannotRun, match="linux belongs to nobody"):
        build.find()


NOW = time.time()


@pytest.mark.parametrize(
    "entry",
    [
        None,
        [],
        "fast",
        {},
        {"capacity_bps": 1e9},
        {"capacity_bps": 0, "measured_at": NOW},
        {"capacity_bps": -1e9, "measured_at": NOW},
        {"capacity_bps": math.nan, "measured_at": NOW},
        {"capacity_bps": math.inf, "measured_at": NOW},
        {"capacity_bps": "fast", "measured_at": NOW},
        {"capacity_bps": 1e9, "measured_at": "today"},
        {"capacity_bps": 1e9, "measured_at": NOW + 3600},
        {"capacity_bps": 1e9, "measured_at": NOW - 2 * 24 * 3600},
    ],
)
def test_an_odd_capacity_is_measured_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, entry: object
) -> None:
    monkeypatch.setenv("GIVEWAY_CACHE", str(tmp_path))
    monkeypatch.setattr(capacity, "_measure", lambda *_: 7e9)
    said: list[str] = []
    order = (True, 10**9, said.append, "test00")
    assert capacity.measured(*order) == 7e9
    [key] = cache.read_json(capacity.CACHE_FILE)
    assert capacity.measured(*order) == 7e9
    assert len(said) == 1
    (tmp_path / capacity.CACHE_FILE).write_text(json.dumps({key: entry}))
    monkeypatch.setattr(capacity, "_measure", lambda *_: 8e9)
    assert capacity.measured(*order) == 8e9


FLUID = """
from testbed.fluid import compiled
compiled.rehearse = lambda: (compiled.FOLDER.mkdir(exist_ok=True),
                             (compiled.FOLDER / "f.1.nbc").write_bytes(b"code"),
                             (compiled.FOLDER / "f.nbi").write_bytes(INDEX))
import pickle
INDEX = pickle.dumps("version") + pickle.dumps(pickle.dumps("overloads"))
compiled.compile_once(print)
"""


def compiled(place: Path) -> str:
    """What is said when the simulator has to be there, with something in place of a compiler."""
    variables = {**os.environ, "GIVEWAY_CACHE": str(place)}
    done = subprocess.run(
        [sys.executable, "-c", FLUID], cwd=REPOSITORY, env=variables, capture_output=True,
        text=True, check=True,
    )  # fmt: skip
    return done.stdout


def test_a_damaged_simulator_is_compiled_again(tmp_path: Path) -> None:
    assert compiled(tmp_path).startswith("compiling")
    assert compiled(tmp_path) == ""
    [made] = tmp_path.glob("fluid-*")
    for name, content in {
        "f.1.nbc": b"cod3",
        "f.nbi": b"nonsense",
        "complete": b"",  # as an older Giveway left it
    }.items():
        (made / name).write_bytes(content)
        assert compiled(tmp_path).startswith("compiling"), name
        assert compiled(tmp_path) == "", name


@pytest.mark.root
def test_a_simulator_that_somebody_planted_is_not_loaded(tmp_path: Path) -> None:
    compiled(tmp_path)
    [code] = tmp_path.glob("fluid-*/f.1.nbc")
    os.chown(code, STRANGER, -1)
    with pytest.raises(subprocess.CalledProcessError) as caught:
        compiled(tmp_path)
    assert f"{code} belongs to nobody" in caught.value.stderr


NOWHERE = {
    "a home that is not there": {"HOME": "/no/such/home", "GIVEWAY_CACHE": ""},
    "a cache that cannot be made": {"GIVEWAY_CACHE": "/proc/cache"},
    "a file": {"GIVEWAY_CACHE": "/etc/passwd"},
    "nobody's home": {"GIVEWAY_CACHE": "~no-such-user-at-all"},
}


@pytest.mark.parametrize("where", NOWHERE)
def test_a_cache_that_cannot_be_is_one_line(where: str) -> None:
    out = str(Path(gettempdir(), "giveway-never-made"))  # anybody may write there
    run = ("run", "experiments/quickstart.yaml", "--engine", "fluid", "--out", out)
    user = ["setpriv", f"--reuid={STRANGER}", f"--regid={STRANGER}", "--clear-groups"]
    done = subprocess.run(
        [*(user if os.geteuid() == 0 else ()), sys.executable, "-m", "testbed", *run],
        cwd=REPOSITORY, env={**os.environ, **NOWHERE[where]}, capture_output=True, text=True,
        timeout=100, check=False,
    )  # fmt: skip
    assert done.returncode == 3, done.stderr
    assert "set GIVEWAY_CACHE to a folder of your own" in done.stderr
    assert done.stderr.count("\n") == 1


def test_an_edit_that_adds_a_file_to_the_kernel_replaces_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(build, "EDITS", (("new.c", "", "int a;\n"), ("old.c", "1", "2")))
    (tmp_path / "old.c").write_text("1\n")
    build._edit(tmp_path)
    assert (tmp_path / "new.c").read_text() == "int a;\n"
    assert (tmp_path / "old.c").read_text() == "2\n"
    (tmp_path / "old.c").write_text("1\n")
    with pytest.raises(CannotRun, match=r"new\.c: .* this recipe is too old"):
        build._edit(tmp_path)
