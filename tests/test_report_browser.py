"""The report in a real browser: it opens from disk, shows everything, and fits a phone."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from analysis import report, sweep
from tests import chromium, run_folders
from tests.run_folders import Effect, Folder

pytestmark = chromium.NEEDED

SIX = {
    name: Effect(small=6.0 - index, medium=2.0, large=1.5, training=1.05 + 0.03 * index)
    for index, name in enumerate(("fifo", "strict-priority", "htb-priority", "a", "b", "c"))
}
FOLDERS = {
    "two policies": Folder(claims=(run_folders.claim(), run_folders.claim(value=-0.6))),
    "six policies": Folder(effects=SIX, seeds=(0, 1)),
    "six policies, two families": Folder(
        effects=SIX,
        seeds=(0,),
        jobs=("ring-1", "ring-2", "ps-1", "ps-2"),
        families={"ring-1": "ring", "ring-2": "ring", "ps-1": "ps", "ps-2": "ps"},
    ),
    "doubtful, unfinished, two jobs": Folder(
        unfinished={"fifo": 0.15},
        jobs=("resnet50", "vgg16"),
        verdicts={"strict-priority": "doubtful"},
    ),
    "broken, one seed": Folder(seeds=(0,), verdicts={"fifo": "broken"}),
}


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with chromium.chromium(tmp_path_factory.mktemp("chromium")) as driver:
        yield driver


def open_at(browser: Any, path: Path, width: int, scheme: str = "light") -> None:
    """Exactly this width of page: a window's own smallest width does not matter."""
    browser.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False},
    )
    browser.execute_cdp_cmd(
        "Emulation.setEmulatedMedia",
        {"features": [{"name": "prefers-color-scheme", "value": scheme}]},
    )
    browser.get(path.as_uri())
    assert browser.execute_script("return window.innerWidth") == width


def save_whole_page(browser: Any, path: Path, width: int) -> None:
    import base64

    height = browser.execute_script("return document.documentElement.scrollHeight")
    clip = {"x": 0, "y": 0, "width": width, "height": height, "scale": 1}
    shot = browser.execute_cdp_cmd(
        "Page.captureScreenshot", {"captureBeyondViewport": True, "clip": clip}
    )
    path.write_bytes(base64.b64decode(shot["data"]))


@pytest.mark.parametrize("name", FOLDERS)
def test_the_report_reads_well_at_every_width(browser: Any, tmp_path: Path, name: str) -> None:
    path = report.write(run_folders.write(tmp_path / "out", FOLDERS[name]))
    for width in (400, 800, 1400):
        open_at(browser, path, width)
        save_whole_page(browser, tmp_path / f"report-{width}.png", width)

        assert browser.get_log("browser") == []
        assert browser.execute_script("return document.documentElement.scrollWidth") <= width
        pictures = browser.execute_script(
            "return [...document.querySelectorAll('.picture')].map(p => {"
            "  const box = p.getBoundingClientRect();"
            "  const texts = [...p.querySelectorAll('text')];"
            "  const scale = box.width / p.viewBox.baseVal.width;"
            "  return {width: box.width, height: box.height, alt: p.getAttribute('aria-label'),"
            "    left: Math.min(...texts.map(t => t.getBoundingClientRect().left)),"
            "    right: Math.max(...texts.map(t => t.getBoundingClientRect().right)),"
            "    text: Math.min(...texts.map("
            "      t => scale * parseFloat(getComputedStyle(t).fontSize)))};"
            "})"
        )
        tenants = int(len(FOLDERS[name].effects) > 4)
        drawn = 2 + 3 + 1  # changes, completion times, slowdown
        expected = tenants + drawn + len(FOLDERS[name].jobs) + 2 * len(FOLDERS[name].effects)
        assert len(pictures) == expected
        for picture in pictures:
            assert picture["width"] > 250
            assert picture["height"] > 80
            assert len(picture["alt"]) > 40
            assert picture["text"] >= 9
            assert picture["left"] >= 0
            assert picture["right"] <= width


def test_who_gains_and_who_pays_is_the_first_thing_to_see(browser: Any, tmp_path: Path) -> None:
    what = FOLDERS["six policies, two families"]
    path = report.write(run_folders.write(tmp_path / "out", what))
    open_at(browser, path, 1400)
    head, rows, verdicts, unfolded, above = browser.execute_script(
        "const section = document.getElementById('tenants');"
        "const table = section.querySelector('table');"
        "const texts = (found) => [...found].map(cell => cell.textContent.trim());"
        "return [texts(table.querySelectorAll('thead th')),"
        "  texts(table.querySelectorAll('tbody th')),"
        "  table.querySelectorAll('.verdict').length,"
        "  document.querySelector('table.main').checkVisibility(),"
        "  section.getBoundingClientRect().top];"
    )
    assert head == [
        "",
        "Small flows",
        "Medium flows",
        "Large flows",
        "ring (2\N{NO-BREAK SPACE}jobs)",
        "ps (2\N{NO-BREAK SPACE}jobs)",
    ]
    assert rows[0] == "FIFO"
    assert len(rows) == 6
    assert verdicts == 5 * 5  # every policy but the first, for every tenant
    assert not unfolded
    assert 0 < above < 900  # on the first screen


def test_the_report_asks_for_nothing_outside_itself(browser: Any, tmp_path: Path) -> None:
    path = report.write(run_folders.write(tmp_path / "out"))
    open_at(browser, path, 1400, "dark")
    save_whole_page(browser, tmp_path / "report-dark.png", 1400)
    loaded = browser.execute_script(
        "return performance.getEntriesByType('resource').map(entry => entry.name)"
    )
    assert [name for name in loaded if not name.startswith("data:")] == []
    assert browser.execute_script("return document.scripts.length") == 0
    page, ink = browser.execute_script(
        "const style = getComputedStyle(document.body); return [style.backgroundColor, style.color]"
    )
    assert (page, ink) == ("rgb(20, 24, 29)", "rgb(232, 234, 237)")


def test_the_report_of_a_sweep_reads_well_at_every_width(browser: Any, tmp_path: Path) -> None:
    path = sweep.write(run_folders.write_sweep(tmp_path / "out"))
    for width in (400, 800, 1400):
        open_at(browser, path, width)
        save_whole_page(browser, tmp_path / f"sweep-{width}.png", width)
        assert browser.get_log("browser") == []
        assert browser.execute_script("return document.documentElement.scrollWidth") <= width
        pictures = browser.execute_script(
            "return [...document.querySelectorAll('.picture')].map(p => {"
            "  const texts = [...p.querySelectorAll('text')].map(t => t.getBoundingClientRect());"
            "  return {alt: p.getAttribute('aria-label').length,"
            "    left: Math.min(...texts.map(t => t.left)),"
            "    right: Math.max(...texts.map(t => t.right))};"
            "})"
        )
        assert len(pictures) == 3 + 3 * 2  # maps of three metrics; lines of each at two sizes
        for picture in pictures:
            assert picture["alt"] > 40
            assert picture["left"] >= 0
            assert picture["right"] <= width


def test_up_to_three_policies_are_seen_without_scrolling_the_table(
    browser: Any, tmp_path: Path
) -> None:
    three = {name: SIX[name] for name in list(SIX)[:3]}
    path = report.write(run_folders.write(tmp_path / "out", Folder(effects=three, seeds=(0, 1))))
    for width in (1000, 1200, 1400):
        open_at(browser, path, width)
        hidden = browser.execute_script(
            "const around = document.querySelector('table.main').parentElement;"
            "return around.scrollWidth - around.clientWidth;"
        )
        assert hidden <= 0, width
