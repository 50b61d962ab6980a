"""The Docker engine that is there: found, asked, and cleaned of what dead runs have left."""

import json
import os
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from basics.errors import CannotRun, RunFailed
from testbed import processes
from testbed.containers import image
from testbed.containers.image import Image

RUN_LABEL, CONTROLLER_LABEL = "giveway.run", "giveway.controller"
NAMESPACE_LABEL, BOOT_LABEL = "giveway.pid-namespace", "giveway.boot"
PRIVATE_FOLDER = "/run/giveway-docker"  # of scripts/docker-engine.sh
REMOVE_LIMIT_S = 20.0
# No network, no capability, nothing to write to but memory.
CONFINED = (
    "--network=none",
    "--cap-drop=ALL",
    "--security-opt=no-new-privileges",
    "--read-only",
    "--tmpfs=/tmp:size=64m",
)


@dataclass(frozen=True)
class DockerEngine:
    argv: tuple[str, ...]
    version: str


@cache
def engine() -> DockerEngine | None:
    """The user's engine (DOCKER_HOST, or Docker's own default), else our private one."""
    private = os.environ.get("GIVEWAY_DOCKER_RUN", PRIVATE_FOLDER) + "/docker.sock"
    for argv in (("docker",), ("docker", "-H", f"unix://{private}")):
        try:
            version = processes.run([*argv, "version", "-f", "{{.Server.Version}}"]).strip()
        except (RunFailed, CannotRun):
            continue
        if version:
            return DockerEngine(argv, version)
    return None


def demand_engine() -> DockerEngine:
    found = engine()
    if found is None:
        raise CannotRun(
            "hosts: docker needs a Docker engine, and none answers: start yours, or run "
            "`make image`, which starts a private one"
        )
    return found


def ask(*arguments: str, limit_s: float = 60, both: bool = False) -> str:
    """What the engine answers to a `docker` command; `both` adds what it says on stderr."""
    argv = [*demand_engine().argv, *arguments]
    if both:
        argv = ["sh", "-c", 'exec "$@" 2>&1', "sh", *argv]
    return processes.run(argv, limit_s=limit_s)


def demand_image(wanted: Image = image.NATIVE) -> str:
    """The image's id, if there is one that was made from this very code."""
    form = '{{.Id}} {{index .Config.Labels "' + image.INPUTS_LABEL + '"}}'
    demand_engine()
    try:
        found_id, _, inputs = (
            ask("image", "inspect", "-f", form, wanted.name).strip().partition(" ")
        )
    except RunFailed:
        raise CannotRun(
            f"there is no image {wanted.name} yet: run `make {wanted.target}`"
        ) from None
    current = image.digest(wanted)
    if inputs != current:
        raise CannotRun(
            f"the image {wanted.name} is stale: it was made from {inputs or 'other files'}, the "
            f"code is now {current}: run `make {wanted.target}`"
        )
    return found_id


@cache
def versions_inside(image_id: str) -> dict[str, str]:
    """Python and its packages in an image, as they say themselves."""
    code = (
        "import json, platform; from importlib import metadata as m; print(json.dumps("
        "{'python': platform.python_version(), **{d.name: d.version for d in m.distributions()}}))"
    )
    found: dict[str, str] = json.loads(python_inside(image_id, code))
    return dict(sorted(found.items()))


def python_inside(image_id: str, code: str) -> str:
    """What some Python code prints in a container that is confined as a run's are."""
    return ask(
        "run", "--rm", *labels("look"), *CONFINED, "--entrypoint=python3", image_id, "-c", code
    )


def labels(run_id: str) -> list[str]:
    """Options for what every container of a run carries, so that cleaning can tell whose it is."""
    controller, _, namespace = processes.own_mark().rpartition(":")
    carried = {
        RUN_LABEL: run_id,
        CONTROLLER_LABEL: controller,
        NAMESPACE_LABEL: namespace,
        BOOT_LABEL: boot_id(),
    }
    return [f"--label={key}={value}" for key, value in carried.items()]


def boot_id() -> str:
    """This boot of this machine: an engine may be another machine's, whose pids are not ours."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def containers(label: str) -> list[str]:
    return ask("ps", "-aq", "--filter", f"label={label}").split()


def remove(ids: Iterable[str]) -> None:
    """Remove containers with all that is theirs; returns when they are gone."""
    left = list(ids)
    give_up_s = time.monotonic() + REMOVE_LIMIT_S
    while left:
        try:
            ask("rm", "-fv", *left)
            return
        except RunFailed as failure:  # somebody else may be removing the same container
            present = set(ask("ps", "-aq").split())
            left = [found for found in left if found in present]
            if left and time.monotonic() > give_up_s:
                raise RunFailed(f"cannot remove containers {' '.join(left)}: {failure}") from None
            time.sleep(0.1)


def orphans() -> dict[str, tuple[str, str]]:
    """Containers of runs whose controller is gone: name and run, by id."""
    if engine() is None:
        return {}
    found = {}
    ids = containers(RUN_LABEL)
    for entry in json.loads(ask("inspect", *ids)) if ids else []:
        if is_orphan(entry["Config"]["Labels"], entry["State"]["Status"]):
            found[entry["Id"]] = (entry["Name"].lstrip("/"), entry["Config"]["Labels"][RUN_LABEL])
    return found


def is_orphan(carried: Mapping[str, str], status: str) -> bool:
    """Whether no run needs a container any more; one without a boot's name is an older Giveway's.

    One of another boot is another machine's, or was here before a power cut, which ended it.
    """
    boot = carried.get(BOOT_LABEL, "")
    if boot == boot_id():
        return processes.is_gone(f"{carried.get(CONTROLLER_LABEL)}:{carried.get(NAMESPACE_LABEL)}")
    return bool(boot) and status == "exited"
