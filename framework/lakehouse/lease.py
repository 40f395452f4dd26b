"""The lease: one process at a time works on a pipeline, and the next one learns which one it is."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import pwd
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from framework.errors import MainstemError
from framework.lakehouse.lakehouse import Lakehouse
from framework.private_files import open_lock_file

LASTS = timedelta(seconds=60)
RENEWED_EVERY = timedelta(seconds=15)

_BODY_LENGTH = 1024
_ORPHAN_ENDS_WITHIN = 30.0

Clock = Callable[[], datetime]


@dataclass(frozen=True, slots=True)
class Lease:
    """A lease that this process holds.

    `number` is higher than that of every earlier holder: it goes into commit metadata. For a lakehouse in an
    object store it is 0, and nothing keeps a second process out.
    """

    pipeline: str
    number: int
    since: datetime
    watch: Callable[[int], None]
    """Registers a child process (the JVM): if this process dies first, a later holder waits for it."""


def wall_clock() -> datetime:
    """Now, in UTC."""
    return datetime.now(UTC)


@contextmanager
def hold_lease(lakehouse: Lakehouse, pipeline: str, *, now: Clock = wall_clock) -> Iterator[Lease]:
    """Hold the lease of a pipeline in a `with` block; raises MainstemError LEASE_HELD if another has it.

    A lock of the operating system decides, so that the lease of a dead process is free at once. The file's
    text names the holder and is renewed every 15 s. Object stores have no such lock: there, the scheduler
    must keep runs apart.
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
    """When a process started, as text that differs for a later process of the same number.

    The time counts from the start of the machine, which the text names: steps of the clock do not change it.
    None where the process does not exist, or where the system has no /proc.
    """
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return None
    return None if fields[0] in ("Z", "X") else f"{boot}:{fields[19]}"


def _locked(path: Path) -> int:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = open_lock_file(path)
    except OSError as error:
        raise _unavailable(path, error) from None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = _read(descriptor)
        os.close(descriptor)
        raise _held_error(path, holder) from None
    except OSError as error:
        os.close(descriptor)
        raise _unavailable(path, error) from None
    return descriptor


def _held_error(path: Path, holder: Mapping[str, object]) -> MainstemError:
    process = f"process {holder.get('pid', 'unknown')} on {holder.get('host', 'this machine')}"
    who = f"{process}, since {holder.get('since', 'just now')}"
    return MainstemError(
        "LEASE_HELD",
        found=f"another run of this pipeline is at work: {who}",
        where=str(path),
        action="wait until it ends, or stop that process; its lease is free as soon as it is gone",
    )


def _unavailable(path: Path, error: OSError) -> MainstemError:
    return MainstemError(
        "LEASE_UNAVAILABLE",
        found=f"the file of the lease cannot be opened and locked: {error.strerror or error}",
        where=str(path),
        action=_advice(path, error.errno),
    )


def _advice(path: Path, reason: int | None) -> str:
    """What to do about a lease that cannot be opened or locked."""
    if reason in (errno.EACCES, errno.EPERM):
        owner = _other_owner(path)
        if owner is not None:
            return (
                f"run as {owner}, who has run this pipeline before; to hand it over, let {owner} give the"
                " lakehouse with its `_mainstem` to the new user while no run is at work"
            )
        return f"give this user the right to write to {path.parent} and to {path.name}, if it is there"
    if reason == errno.ELOOP:
        return "a link stands where the file belongs: remove the link, and find out who put it there"
    if reason in (errno.ENOTDIR, errno.EEXIST, errno.EISDIR):
        return f"{path.parent} must be a folder, and {path.name} a file: move away what is there instead"
    if reason in (errno.ENOSPC, errno.EDQUOT):
        return "free some space on the disk of the lakehouse, and run again"
    if reason == errno.EROFS:
        return "the lakehouse is on a file system that is mounted read-only: mount it for writing"
    return (
        "put the lakehouse on a file system that can lock files (`flock`): a local disk, NFS 4 with locks;"
        " or name an object store by its URL, and let the scheduler keep runs apart"
    )


def _other_owner(path: Path) -> str | None:
    """The name of the user to whom the file, or else its folder, belongs; None if that is this user."""
    for place in (path, path.parent):
        try:
            owner = os.lstat(place).st_uid
        except OSError:
            continue
        if owner == os.geteuid():
            return None
        try:
            return f"the user {pwd.getpwuid(owner).pw_name}"
        except KeyError:
            return f"the user with the number {owner}"
    return None


def _await_orphan(earlier: Mapping[str, object], path: Path) -> None:
    """Wait until the JVM of a killed holder has ended: it may be in the middle of a commit."""
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
                action=f"end process {child} (`kill -9 {child}`), then run again",
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
    """Write a text of constant length at once, so that a reader never sees half of it."""
    os.pwrite(descriptor, json.dumps(body).encode().ljust(_BODY_LENGTH - 1) + b"\n", 0)


def _text(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
