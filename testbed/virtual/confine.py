"""Starts a guest's kernel so that it can change nothing on this machine but a few folders.

The guest sees the machine's files read-only, but that is its own mount's flag: root in the guest
can mount them again. So the process outside is confined too, by what this kernel offers:

mounts    a mount namespace in which all else is read-only; needs root
landlock  no file may be written, made or removed elsewhere; it leaves modes and times of files
          open and, below Linux 6.2, their length

Run by its path, in the place of what it starts; standard library only.
"""

import ctypes
import os
import signal
import struct
import sys
from collections.abc import Callable, Sequence

CLONE_NEWNS = 0x00020000
MS_BIND, MS_REC, MS_PRIVATE = 0x1000, 0x4000, 0x40000
AT_FDCWD, AT_RECURSIVE, MOUNT_ATTR_RDONLY = -100, 0x8000, 1
PR_SET_NO_NEW_PRIVS, PR_CAPBSET_DROP = 38, 24
# The same number on every architecture.
SYS_MOUNT_SETATTR = 442
SYS_CREATE_RULESET, SYS_ADD_RULE, SYS_RESTRICT_SELF = 444, 445, 446
CREATE_RULESET_VERSION, RULE_PATH_BENEATH = 1, 1
# linux/landlock.h: writing a file, removing and making one of any kind; then what came later.
WRITE_FILE = 1 << 1
WRITE = WRITE_FILE | sum(1 << bit for bit in range(4, 13))
REFER, TRUNCATE = 1 << 13, 1 << 14  # since versions 2 and 3 of its interface
NET_TCP = 0b11  # bind and connect: since version 4
SCOPES = 0b11  # abstract sockets and signals: since version 6
# What a kernel opens for itself, for consoles that nobody reads.
DEVICES = ("/dev/null", "/dev/ptmx", "/dev/pts")
# What root may still do: use files whoever's they are. (linux/capability.h: CHOWN, DAC_OVERRIDE,
# DAC_READ_SEARCH, FOWNER, FSETID)
KEPT_CAPABILITIES = range(5)

MOUNTS = "a mount namespace that is read-only but for it"

libc = ctypes.CDLL(None, use_errno=True)


def checked(result: int, what: str) -> int:
    if result < 0:
        raise OSError(ctypes.get_errno(), what)
    return result


def mounts(folders: Sequence[str]) -> str:
    """A mount namespace of its own, where everything but the folders is read-only.

    For root only. Others could have one in a user namespace, but there root's files are nobody's,
    also for the guest: its `mount`, which belongs to root, would not be root's any more.
    """
    here = os.getcwd()
    checked(libc.unshare(CLONE_NEWNS), "unshare")
    checked(libc.mount(None, b"/", None, MS_REC | MS_PRIVATE, None), "mount")
    for folder in folders:
        path = os.fsencode(folder)
        checked(libc.mount(path, path, None, MS_BIND, None), "mount")
    set_attributes(b"/", AT_RECURSIVE, add=MOUNT_ATTR_RDONLY)
    for folder in folders:
        set_attributes(os.fsencode(folder), 0, remove=MOUNT_ATTR_RDONLY)
    os.chdir(here)  # into the new mount, if it is one of the folders
    return MOUNTS


def set_attributes(path: bytes, flags: int, add: int = 0, remove: int = 0) -> None:
    attributes = struct.pack("=QQQQ", add, remove, 0, 0)
    arguments = (AT_FDCWD, path, flags, attributes, ctypes.c_size_t(len(attributes)))
    checked(libc.syscall(SYS_MOUNT_SETATTR, *arguments), "mount_setattr")


def landlock(folders: Sequence[str]) -> str:
    """No file outside of the folders may be written, made, moved or removed."""
    version = checked(
        libc.syscall(SYS_CREATE_RULESET, None, ctypes.c_size_t(0), CREATE_RULESET_VERSION),
        "landlock_create_ruleset",
    )
    files = WRITE | (REFER if version >= 2 else 0) | (TRUNCATE if version >= 3 else 0)
    handled = [files]
    handled += [NET_TCP] if version >= 4 else []
    handled += [SCOPES] if version >= 6 else []
    attributes = struct.pack(f"={len(handled)}Q", *handled)
    size = ctypes.c_size_t(len(attributes))
    rules = checked(
        libc.syscall(SYS_CREATE_RULESET, attributes, size, 0), "landlock_create_ruleset"
    )
    allowed = dict.fromkeys(folders, files)
    allowed |= {device: WRITE_FILE for device in DEVICES if os.path.exists(device)}
    for path, rights in allowed.items():
        place = os.open(path, os.O_PATH | os.O_CLOEXEC)
        rule = struct.pack("=Qi", rights, place)
        checked(libc.syscall(SYS_ADD_RULE, rules, RULE_PATH_BENEATH, rule, 0), "landlock_add_rule")
        os.close(place)
    checked(libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "prctl")
    checked(libc.syscall(SYS_RESTRICT_SELF, rules, 0), "landlock_restrict_self")
    os.close(rules)
    return f"Landlock (version {version})"


MEANS: dict[str, Callable[[Sequence[str]], str]] = {"mounts": mounts, "landlock": landlock}


def confine(means: Sequence[str], folders: Sequence[str]) -> list[str]:
    """Confine this process for good, by all of these means that work; says which did."""
    done = []
    for name in means:
        try:
            done.append(MEANS[name](folders))
        except OSError:
            continue
    for capability in range(64):
        if capability not in KEPT_CAPABILITIES:
            libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)
    return done


def main(means: str, count: str, *rest: str) -> None:
    """Confine to the first `count` arguments, then become the others; without others, report."""
    folders, command = rest[: int(count)], rest[int(count) :]
    done = confine([name for name in means.split(",") if name], folders)
    if not command:
        print(*done, sep="\n")
        return
    for number in (signal.SIGPIPE, signal.SIGXFSZ):  # which Python ignores
        signal.signal(number, signal.SIG_DFL)
    os.execv(command[0], command)


if __name__ == "__main__":
    main(*sys.argv[1:])
