"""The lease: one process at a time works on a pipeline, and the next one learns who it is."""

from __future__ import annotations

import fcntl
import json
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from framework.errors import MainstemError
from framework.tables import Lakehouse

LASTS = timedelta(seconds=60)
RENEWED_EVERY = timedelta(seconds=15)

_BODY_LENGTH = 1024
_ORPHAN_ENDS_WITHIN = 30.0

Clock = Callable[[], datetime]


@dataclass(frozen=True, slots=True)
class Lease:
    """A held lease. `number` is higher than that of every earlier holder: it goes into commit metadata.

    For a lakehouse in an object store `number` is 0 and nothing keeps a second process out.
    """

    pipeline: str
    number: int
    since: datetime
    watch: Callable[[int], None]
    """Name a child process (the JVM) that a later holder waits for when this process dies without ending it."""


def wall_clock() -> datetime:
    """Now, in UTC."""
    return datetime.now(UTC)


@contextmanager
def hold_lease(lakehouse: Lakehouse, pipeline: str, *, now: Clock = wall_clock) -> Iterator[Lease]:
    """The lease of a pipeline for the time of a `with` block; raises MainstemError LEASE_HELD while another has it.

    A lock of the operating system decides, so that a dead owner's lease is free at once; the file's text says who holds
    it and is renewed every 15 s. Object stores have no such lock: there, keep runs apart by the scheduler.
    """
    root = lakehouse.local_root
    if root is None:
        yield Lease(pipeline, 0, now(), lambda _: None)
        return
    path = Path(lakehouse.checkpoints) / f"{pipeline}.lease"
    descriptor = _locked(path)
    try:
        earlier = _read(descriptor)
        _await_orphan(earlier, path)
        entry = _Entry(descriptor, _first_body(earlier, pipeline, now), now)
        with _renewed(entry):
            yield Lease(pipeline, entry.number, entry.since, entry.watch)
    finally:
        os.close(descriptor)


class _Entry:
    """The text of a lease file that this process has locked."""

    def __init__(self, descriptor: int, body: dict[str, object], now: Clock) -> None:
        self._descriptor = descriptor
        self._body = body
        self._now = now
        self._guard = threading.Lock()
        self.renew()

    @property
    def number(self) -> int:
        return _number(self._body)

    @property
    def since(self) -> datetime:
        return datetime.fromisoformat(str(self._body["since"]))

    def renew(self) -> None:
        with self._guard:
            self._body["expires"] = _text(self._now() + LASTS)
            _write(self._descriptor, self._body)

    def watch(self, child: int) -> None:
        with self._guard:
            self._body |= {"child_pid": child, "child_started": process_started(child)}
            _write(self._descriptor, self._body)

    def release(self) -> None:
        with self._guard:
            _write(self._descriptor, {"number": self._body["number"], "released": _text(self._now())})


@contextmanager
def _renewed(entry: _Entry) -> Iterator[None]:
    ended = threading.Event()

    def renew() -> None:
        while not ended.wait(RENEWED_EVERY.total_seconds()):
            entry.renew()

    thread = threading.Thread(target=renew, name="lease", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        entry.release()


def process_started(pid: int) -> str | None:
    """When a process started, as text that tells it from an earlier one of the same number; None where it is gone.

    Where the system does not say (no /proc), also None.
    """
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        booted = next(line for line in Path("/proc/stat").read_text().splitlines() if line.startswith("btime "))
    except (OSError, StopIteration):
        return None
    if fields[0] in ("Z", "X"):
        return None
    seconds = int(booted.split()[1]) + int(fields[19]) / os.sysconf("SC_CLK_TCK")
    return _text(datetime.fromtimestamp(seconds, UTC))


def _locked(path: Path) -> int:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise _unavailable(path, error) from None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = _read(descriptor)
        os.close(descriptor)
        raise _held(path, holder) from None
    except OSError as error:
        os.close(descriptor)
        raise _unavailable(path, error) from None
    return descriptor


def _held(path: Path, holder: Mapping[str, object]) -> MainstemError:
    who = f"process {holder.get('pid', 'unknown')} on {holder.get('host', 'this machine')}, since {holder.get('since', 'just now')}"
    return MainstemError(
        "LEASE_HELD",
        found=f"another run of this pipeline is at work: {who}",
        where=str(path),
        action="wait until it ends, or stop that process; its lease is free as soon as it is gone",
    )


def _unavailable(path: Path, error: OSError) -> MainstemError:
    return MainstemError(
        "LEASE_UNAVAILABLE",
        found=error.strerror or str(error),
        where=str(path),
        action="make the lakehouse's folder writable, on a file system that can lock files",
    )


def _await_orphan(earlier: Mapping[str, object], path: Path) -> None:
    """Wait until the JVM of a holder that was killed has ended: it may be in the middle of a commit."""
    child, started = earlier.get("child_pid"), earlier.get("child_started")
    if not isinstance(child, int) or started is None or earlier.get("host") != socket.gethostname():
        return
    deadline = time.monotonic() + _ORPHAN_ENDS_WITHIN
    while process_started(child) == started:
        if time.monotonic() > deadline:
            raise MainstemError(
                "LEASE_ORPHAN",
                found=f"process {child}, the JVM of a run that was killed, still works on this pipeline",
                where=str(path),
                action=f"stop process {child}, then run again",
            )
        time.sleep(0.05)


def _first_body(earlier: Mapping[str, object], pipeline: str, now: Clock) -> dict[str, object]:
    return {
        "pipeline": pipeline,
        "number": _number(earlier) + 1,
        "host": socket.gethostname(),
        "pid": os.getpid(),
        "process_started": process_started(os.getpid()),
        "since": _text(now()),
    }


def _number(body: Mapping[str, object]) -> int:
    number = body.get("number")
    return number if isinstance(number, int) else 0


def _read(descriptor: int) -> dict[str, object]:
    try:
        body = json.loads(os.pread(descriptor, _BODY_LENGTH, 0) or b"{}")
    except ValueError:
        return {}
    return body if isinstance(body, dict) else {}


def _write(descriptor: int, body: Mapping[str, object]) -> None:
    """One write of always the same length, so that a reader never sees half of it."""
    os.pwrite(descriptor, json.dumps(body).encode().ljust(_BODY_LENGTH - 1) + b"\n", 0)


def _text(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
