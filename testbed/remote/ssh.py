"""Connections as `ssh HOST` makes them: its configuration, keys, agent and known hosts.

Nothing is asked on the way, and no host key is taken on trust: what ssh would ask is an error that
says so.
"""

import logging
import socket
import sys
import threading
from pathlib import Path
from typing import Any, NoReturn

import paramiko
from fabric import Config, Connection
from fabric.runners import Remote

from basics.errors import BadInput, CannotRun

CONNECT_LIMIT_S = 15
SILENCE_LIMIT_S = 60  # without an answer on the wire, a connection is lost
INTERRUPT_LIMIT_S = 60  # scripts/until-hangup.sh kills what takes 50 s to end
KNOWN_HOSTS = {
    "userknownhostsfile": "~/.ssh/known_hosts ~/.ssh/known_hosts2",
    "globalknownhostsfile": "/etc/ssh/ssh_known_hosts /etc/ssh/ssh_known_hosts2",
}

logging.getLogger("paramiko").addHandler(logging.NullHandler())  # errors are said once, by us


class UnknownHostKey(paramiko.SSHException):
    """The host is not among the known hosts."""


class Refuse(paramiko.MissingHostKeyPolicy):
    """Instead of fabric's own choice, which accepts every key."""

    def missing_host_key(self, client: Any, hostname: str, key: Any) -> NoReturn:
        raise UnknownHostKey(hostname)


class InterruptedRemote(Remote):
    """A command there: the first Ctrl-C interrupts it, the second one gives up waiting for it."""

    interrupted = False

    def send_interrupt(self, interrupt: KeyboardInterrupt) -> None:
        if self.interrupted:
            raise interrupt
        self.interrupted = True
        print("giveway: interrupting it there …", file=sys.stderr)
        self.channel.shutdown_write()  # read by scripts/until-hangup.sh
        late = threading.Timer(INTERRUPT_LIMIT_S, self.channel.close)
        late.daemon = True
        late.start()


def connected(host: str) -> Connection:
    """An open connection to what ssh_config knows, or to user@host:port."""
    config = Config(lazy=True, overrides={"runners": {"remote": InterruptedRemote}})
    limits = dict.fromkeys(("banner_timeout", "auth_timeout"), CONNECT_LIMIT_S)
    try:
        config.load_ssh_config()
        connection = Connection(
            host, config=config, connect_timeout=CONNECT_LIMIT_S, connect_kwargs=limits
        )
        hop = connection
        while isinstance(hop, Connection):  # and hosts that ssh_config says to jump over
            check_host_key(hop)
            hop = hop.gateway
    except (ValueError, paramiko.SSHException) as why:
        raise BadInput(f"{host}: the name or ~/.ssh/config is not understood: {why}") from None
    try:
        connection.open()
    except (paramiko.SSHException, OSError, EOFError) as why:
        connection.close()
        raise CannotRun(f"{host}: {explained(why, host)}") from None
    connection.transport.set_keepalive(SILENCE_LIMIT_S // 4)
    wire = connection.transport.sock
    if isinstance(wire, socket.socket):  # not so behind a ProxyCommand
        wire.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, SILENCE_LIMIT_S * 1000)
    return connection


def check_host_key(connection: Connection) -> None:
    connection.client.set_missing_host_key_policy(Refuse())
    for key, default in KNOWN_HOSTS.items():
        for name in connection.ssh_config.get(key, default).split():
            if (path := Path(name).expanduser()).is_file():
                connection.client.load_system_host_keys(str(path))


def explained(why: Exception, host: str) -> str:
    """One line: what happened, and what to do."""
    match why:
        case UnknownHostKey():
            return f"its host key is not known here: `ssh {host}` once, and check the key"
        case paramiko.BadHostKeyException():
            return f"its host key is not the known one: `ssh {host}` says which line is in the way"
        case paramiko.AuthenticationException():
            return f"login refused: `ssh {host}` must work without a password (a key, or an agent)"
        case socket.gaierror():
            return "no machine has this name, and ~/.ssh/config does not know it"
        case TimeoutError():
            return f"no answer within {CONNECT_LIMIT_S} s"
        case paramiko.SSHException() if "No authentication methods" in str(why):
            return f"no key to log in with: `ssh {host}` must work without a password"
        case OSError():
            return f"no connection: {why.strerror or why}; does `ssh {host}` work?"
    words = " ".join(str(why).split()) or type(why).__name__
    return f"no connection: {words}; does `ssh {host}` work?"
