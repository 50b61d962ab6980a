"""`giveway doctor` and `giveway run` for somebody who has neither root nor the virtual kernel."""

import io
from collections.abc import Iterator

import pytest
from rich.console import Console

from basics.errors import CannotRun
from policies.link import link_policies
from testbed import engines, machine
from testbed.cli import doctor
from testbed.spec import load
from tests.conftest import REPOSITORY


@pytest.fixture
def ordinary(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An ordinary user of a fresh checkout: no root, no kernel, no Docker."""
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    for module in ("testbed.virtual.build", "testbed.cli.doctor"):
        monkeypatch.setattr(f"{module}.find", lambda: None)
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere")
    machine.probe.cache_clear()
    yield
    machine.probe.cache_clear()


def examined() -> list[str]:
    written = io.StringIO()
    assert doctor.examine(Console(file=written, width=200), measure=False)
    return written.getvalue().splitlines()


@pytest.mark.usefixtures("ordinary")
def test_an_ordinary_user_reads_first_what_works_and_then_how_to_get_more() -> None:
    first, second, *others = examined()
    assert first.startswith("works now     fluid: giveway run ")
    assert first.endswith("--engine fluid")
    assert second.startswith("for more      `make virtual`")
    text = "\n".join(others)
    assert "fluid         yes" in text
    assert "virtual       no " in text
    assert "realtime      no " in text
    for name in link_policies():  # the longest name too has a space after it, and all are in line
        assert f"\n{name:{max(map(len, link_policies())) + 2}}yes  fluid" in text


@pytest.mark.usefixtures("ordinary")
def test_auto_never_becomes_a_simulation_by_itself_but_names_it() -> None:
    assert engines.resolve(engines.AUTO) == "realtime"
    with pytest.raises(CannotRun) as refused:
        machine.demand_realtime()
    line = str(refused.value)
    assert "\n" not in line
    assert "--engine fluid" in line
    assert "make virtual" in line


def test_where_all_works_there_is_nothing_more_to_do() -> None:
    here = doctor.EngineHere(True, "")
    assert len(list(doctor.first_words({"fluid": here, "virtual": here, "realtime": here}))) == 1


def test_where_nothing_works_it_says_so() -> None:
    nowhere = {"fluid": doctor.EngineHere(False, "others may write to the cache")}
    assert list(doctor.first_words(nowhere)) == ["works now     nothing; the lines below say why"]


@pytest.mark.virtual
def test_without_mininet_the_virtual_engine_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """In an environment of its own the kernel may be there, and what plays in it is not."""
    from testbed.virtual import engine

    for module in (machine, engine):
        monkeypatch.setattr(module, "importable", lambda name: False)
    assert doctor._virtual() == doctor.EngineHere(False, machine.NO_MININET)
    with pytest.raises(CannotRun, match="system-site-packages"):
        engine.demand(load(REPOSITORY / "experiments" / "quickstart.yaml"))
