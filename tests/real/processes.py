"""Servers that a test starts, each with its own folder and log, on loopback; they stop when the test ends."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

DEBIAN = {
    "mariadbd": "mariadb-server",
    "mariadb-install-db": "mariadb-server",
    "mariadb": "mariadb-client",
    "mvn": "maven",
}


def free_ports(count: int) -> list[int]:
    """Ports of loopback that nobody listens on."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [int(one.getsockname()[1]) for one in sockets]
    finally:
        for one in sockets:
            one.close()


def program(name: str, *folders: str) -> str:
    """The path of a program that must be installed."""
    found = shutil.which(name, path=os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", *folders]))
    if found is None:
        pytest.fail(f"{name} is not installed: apt-get install {DEBIAN.get(name, name)}", pytrace=False)
    return found


@dataclass
class Server:
    """A started process with its log. `stop_signal` is the one on which it ends in good order."""

    process: subprocess.Popen[bytes]
    log: Path
    stop_signal: int = signal.SIGTERM

    def stop(self, seconds: float = 60) -> None:
        """End it in good order, else at once."""
        if self.process.poll() is None:
            self.process.send_signal(self.stop_signal)
            try:
                self.process.wait(seconds)
            except subprocess.TimeoutExpired:
                self.kill()

    def kill(self) -> None:
        """End it without a word to anybody."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()

    def tail(self) -> str:
        """The end of its log."""
        return self.log.read_text(errors="replace")[-3000:]


def start(
    arguments: Sequence[str],
    log: Path,
    *,
    env: Mapping[str, str] | None = None,
    stop_signal: int = signal.SIGTERM,
) -> Server:
    """A process whose output goes to the log."""
    with log.open("ab") as out:
        process = subprocess.Popen(
            list(arguments),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            env={**os.environ, **(env or {})},
        )
    return Server(process, log, stop_signal)


def wait_until(is_ready: Callable[[], bool], server: Server, what: str, seconds: float = 120) -> None:
    """Return once the server is ready; fail with the end of its log when it is not in time."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if server.process.poll() is not None:
            break
        if is_ready():
            return
        time.sleep(0.2)
    pytest.fail(f"{what} did not come:\n{server.tail()}", pytrace=False)


def as_user(name: str) -> list[str]:
    """What stands before a command that refuses to run as root."""
    if os.geteuid() != 0:
        return []
    return [program("setpriv"), f"--reuid={name}", f"--regid={name}", "--clear-groups", "--"]
