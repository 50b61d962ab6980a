"""Gets a kernel source: the user's own, the machine's apt's, or Debian's newest backport.

apt runs with lists, a cache and, for backports, a sources file of its own in the work folder, so
that it needs no root and changes no system file. It checks every signature. No host name is
written here: the mirror is the one from which the machine's own packages come.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

from basics.errors import CannotRun

# Older ones die on CPUs with AVX-512 (6.1: "put_fp_registers").
OLDEST = (6, 13)
DEBIAN_KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
# Names that Debian moves from release to release, newest first.
BACKPORTS = ("stable-backports", "oldstable-backports")
HINT = "set GIVEWAY_KERNEL_SOURCE to a kernel source tree or tarball"
# Sources that no User-Mode Linux compiles, half of the tree. Their Kconfig files are read.
UNUSED = (
    "*/arch/*/boot/dts/*",
    "*/drivers/gpu/*.[ch]",
    "*/drivers/media/*.[ch]",
    "*/drivers/net/ethernet/*.[ch]",
    "*/drivers/net/wireless/*.[ch]",
    "*/sound/*.[ch]",
    "*/tools/perf/*",
    "*/tools/testing/*",
    "*/Documentation/*.rst",
    "*/Documentation/*.yaml",
)

# What the build of a tree leaves in it; make would refuse to build beside that.
BUILT = (".config", "include/config", "include/generated", "arch/*/include/generated", "*.o", "*.a")

Say = Callable[[str], None]


def numbers(version: str) -> tuple[int, ...]:
    """The numbers in a version, to compare by."""
    return tuple(int(number) for number in re.findall(r"\d+", version))


class Log:
    """Runs commands with their output in one file, which errors point to."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.write_text("\n")

    def run(self, command: list[str | Path], trouble: str, cwd: Path | None = None) -> None:
        if self.status(command, cwd):
            raise self.error(trouble)

    def status(self, command: list[str | Path], cwd: Path | None = None) -> int:
        with self.path.open("a") as log:
            log.write(f"$ {' '.join(map(str, command))}\n")
            log.flush()
            return subprocess.run(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=plain(), cwd=cwd
            ).returncode

    def error(self, trouble: str) -> CannotRun:
        last = self.path.read_text(errors="replace").rpartition("\n$ ")[2].splitlines()[1:]
        telling = [line for line in last if re.search(r"error|^E:|cannot|not |fail", line, re.I)]
        line = (telling or last or ["no output"])[0].strip()
        return CannotRun(f"{trouble}: {line}; the whole log: {self.path}")


def plain() -> dict[str, str]:
    """The environment without what would steer make or translate its messages."""
    steering = {"ARCH", "MAKEFLAGS", "MAKELEVEL", "MFLAGS", "KCONFIG_CONFIG", "CROSS_COMPILE",
                "SUBARCH", "KBUILD_OUTPUT", "KCFLAGS"}  # fmt: skip
    kept = {name: value for name, value in os.environ.items() if name not in steering}
    return kept | {"LC_ALL": "C"}


def obtain(work: Path, log: Log, say: Say) -> Path:
    """A source tree in the work folder, which the caller may change."""
    named = os.environ.get("GIVEWAY_KERNEL_SOURCE")
    if named:
        path = Path(named).expanduser().absolute()
        if path.is_dir():
            # A copy: the recipe edits it, and nobody expects that of a tree of theirs.
            say(f"copying {path}")
            tarball = work / "tree.tar"
            unused = [f"--exclude={pattern}" for pattern in (*UNUSED, *BUILT)]
            log.run(
                ["tar", "-cf", tarball, "--exclude-vcs", *unused, "-C", path.parent, path.name],
                f"{path} cannot be copied",
            )
            return _unpack(tarball, path, work, log, say)
        if path.is_file():
            return _unpack(path, path, work, log, say)
        raise CannotRun(f"GIVEWAY_KERNEL_SOURCE={named}: no such file or folder")
    if shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None:
        raise CannotRun(f"no apt here to fetch a kernel source with; {HINT}")
    tarball = _fetch(work, log, say)
    return _unpack(tarball, tarball, work, log, say)


def _unpack(tarball: Path, origin: Path, work: Path, log: Log, say: Say) -> Path:
    say(f"unpacking {tarball.name}")
    into = work / "source"
    into.mkdir()
    unused = [f"--exclude={pattern}" for pattern in UNUSED]
    log.run(["tar", "-xf", tarball, "-C", into, *unused], f"{origin} cannot be unpacked")
    trees = [path.parent for path in into.glob("*/Kbuild")]
    if len(trees) != 1:
        raise CannotRun(f"{origin}: not one kernel source tree; {HINT}")
    return trees[0]


def _fetch(work: Path, log: Log, say: Say) -> Path:
    """The tarball of the newest linux-source package that apt can find, signature checked."""
    say("looking for a kernel source")
    own = Apt(work / "apt", log)
    own.update()
    package = own.newest()
    if package:
        return own.tarball(package, say)
    for mirror in own.mirrors():
        for suite in BACKPORTS:
            private = Apt(work / f"apt-{suite}", log, mirror, suite)
            if private.update() and (package := private.newest()):
                return private.tarball(package, say)
            shutil.rmtree(private.folder)
    oldest = ".".join(map(str, OLDEST))
    raise CannotRun(
        f"apt finds no linux-source-{oldest} or newer, here or in Debian's backports "
        f"(log: {log.path}); {HINT}"
    )


class Apt:
    """apt with lists and a cache of its own; with a mirror, with a sources file of its own."""

    def __init__(self, folder: Path, log: Log, mirror: str = "", suite: str = "") -> None:
        self.folder = folder
        self.log = log
        (folder / "lists" / "partial").mkdir(parents=True)
        (folder / "cache" / "archives" / "partial").mkdir(parents=True)
        settings = {"Dir::State::lists": folder / "lists", "Dir::Cache": folder / "cache"}
        if mirror:
            signed = f"[signed-by={DEBIAN_KEYRING}] " if DEBIAN_KEYRING.exists() else ""
            sources = folder / "sources.list"
            sources.write_text(f"deb {signed}{mirror} {suite} main\n")
            settings |= {
                "Dir::Etc::sourcelist": sources,
                "Dir::Etc::sourceparts": Path("/dev/null"),
            }
        # Without the hooks that other packages hang on an update: they change system files.
        lines = ["#clear APT::Update::Post-Invoke;", "#clear APT::Update::Post-Invoke-Success;"]
        lines += [f'{key} "{value}";' for key, value in settings.items()]
        # As root apt would fetch as another user, who cannot write here.
        lines += ['APT::Sandbox::User "root";', 'Acquire::Languages "none";']
        self.config = folder / "apt.conf"
        self.config.write_text("\n".join(lines) + "\n")

    def update(self) -> bool:
        return self.log.status(["apt-get", "-c", self.config, "-q", "update"]) == 0

    def newest(self) -> str | None:
        """The newest linux-source package, if it is new enough."""
        names = re.findall(
            r"^linux-source-[\d.]+$", self._ask("apt-cache", "pkgnames", "linux-source-"), re.M
        )
        best = max(names, key=numbers, default="")
        return best if numbers(best)[:2] >= OLDEST else None

    def mirrors(self) -> list[str]:
        """Where the machine's own Debian packages come from."""
        lines = self._ask(
            "apt-get", "indextargets", "--format", "$(ORIGIN) $(REPO_URI)", "Created-By: Packages"
        ).splitlines()
        debian = [line.split(maxsplit=1)[1] for line in lines if line.startswith("Debian ")]
        return list(dict.fromkeys(debian))

    def tarball(self, package: str, say: Say) -> Path:
        say(f"fetching {package}")
        self.log.run(
            ["apt-get", "-c", self.config, "-q", "download", package],
            f"{package} cannot be fetched",
            cwd=self.folder,
        )
        [deb] = self.folder.glob("*.deb")
        self.log.run(["dpkg-deb", "-x", deb, self.folder / "deb"], f"{deb} cannot be unpacked")
        deb.unlink()
        found = sorted((self.folder / "deb" / "usr" / "src").rglob("linux-source-*.tar.*"))
        if not found:
            raise CannotRun(f"{package} holds no kernel tarball; {HINT}")
        return found[0]

    def _ask(self, program: str, *words: str) -> str:
        command = [program, "-c", str(self.config), *words]
        return subprocess.run(command, capture_output=True, text=True, env=plain()).stdout
