"""What somebody needs to know to get a report's numbers again."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from analysis import words
from analysis.folder import Results, SealedRun
from basics import units


def facts_of(results: Results) -> list[tuple[str, str]]:
    """Names and values, as the report lists them at its end."""
    plan = results.plan
    manifests = [run.manifest for run in results.runs.values()]
    networks = [manifest.get("network") or {} for manifest in manifests]
    # Simulations of earlier versions noted these too, though nothing was sent and nothing measured.
    played = [run.manifest for run in results.runs.values() if not is_simulated(run)]
    wires = [manifest.get("network") or {} for manifest in played]
    versions: dict[str, set[str]] = {}
    for manifest in manifests:
        for name, version in (manifest.get("versions") or {}).items():
            versions.setdefault(name, set()).add(str(version))
    begin, end = plan.window_ns
    facts = [
        ("Seeds", ", ".join(str(seed) for seed in plan.seeds)),
        ("Measured window", measured_window(begin, end, plan.duration_ns)),
        ("Engine", _distinct(manifest.get("engine") for manifest in manifests)),
        ("Dilation", _distinct(_dilation(manifest.get("dilation")) for manifest in played)),
        ("Kernel", _distinct(manifest.get("kernel") for manifest in manifests)),
        ("TCP", _distinct(_tcp(network) for network in networks)),
        (
            "Segmentation offload",
            _distinct(_on_off(network.get("offload")) for network in wires),
        ),
        ("Link delay asked for", _distinct(_delay(network) for network in networks)),
        (
            "Idle round trip measured",
            _range([n["idle_rtt_ns"] for n in wires if n.get("idle_rtt_ns") is not None]),
        ),
        (
            "Versions",
            ", ".join(f"{name} {' / '.join(sorted(found))}" for name, found in versions.items()),
        ),
        ("Started", _when(min(str(manifest.get("started") or "") for manifest in manifests))),
    ]
    return [(name, value) for name, value in facts if value]


def is_simulated(run: SealedRun) -> bool:
    return bool(run.fidelity["verdict"] == "simulated")


def measured_window(begin_ns: int, end_ns: int, duration_ns: int) -> str:
    length, unit = words.time_unit(duration_ns)
    begin, end, whole = (f"{ns / length:.6g} {unit}" for ns in (begin_ns, end_ns, duration_ns))
    return f"{begin} to {end} of {whole}"


def _tcp(network: Mapping[str, Any]) -> str | None:
    control, window, rto_min = (
        network.get(key) for key in ("tcp", "tcp_window_byte", "tcp_rto_min_ns")
    )
    if control is None:
        return None
    windows = "" if window is None else f", windows of {units.format_size(window)}"
    timers = "" if rto_min is None else f", timeouts from {units.format_time(rto_min)}"
    return f"{control}{windows}{timers}"


def _delay(network: Mapping[str, Any]) -> str | None:
    asked = network.get("delay_asked_ns")
    if asked is None:
        return None
    return ("" if network.get("delay_strict") else "about ") + words.duration(asked)


def _dilation(factor: float | None) -> str | None:
    if factor is None:
        return None
    return "1 (not slowed down)" if factor == 1 else f"{factor:g} (every second took {factor:g} s)"


def _when(started: str) -> str:
    try:
        return datetime.fromisoformat(started).astimezone(UTC).strftime("%Y-%m-%d %H:%M UTC")
    except ValueError:
        return started


def _on_off(value: bool | None) -> str | None:
    return None if value is None else "on" if value else "off"


def _distinct(values: Iterable[Any]) -> str:
    shown = (f"{v:g}" if isinstance(v, float) else str(v) for v in values if v is not None)
    return ", ".join(dict.fromkeys(shown))


def _range(values: list[float]) -> str:
    if not values:
        return ""
    if min(values) == max(values):
        return words.duration(values[0])
    return words.duration_interval([min(values), max(values)])
