import errno
import json
import os
import signal
import socket
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from framework.errors import MainstemError
from framework.lakehouse.lakehouse import Lakehouse
from framework.lakehouse.lease import hold_lease, process_started

MOMENT = datetime(2024, 2, 29, 10, tzinfo=UTC)
ROOT = Path(__file__).resolve().parents[3]

HOLDER = """
import subprocess, sys
from framework.lakehouse.lease import hold_lease
from framework.lakehouse.lakehouse import Lakehouse
with hold_lease(Lakehouse(sys.argv[1]), "shop") as lease:
    if sys.argv[2] == "child":
        child = subprocess.Popen(["sleep", "1000"])
        lease.watch(child.pid)
        print(child.pid, flush=True)
    print("held", lease.number, flush=True)
    sys.stdin.read()
"""


def clock() -> datetime:
    return MOMENT


@pytest.fixture
def lakehouse(tmp_path: Path) -> Lakehouse:
    return Lakehouse(str(tmp_path))


def body(lakehouse: Lakehouse) -> dict[str, object]:
    content = json.loads(Path(lakehouse.checkpoints, "shop.lease").read_text())
    assert isinstance(content, dict)
    return content


def start_holder(lakehouse: Lakehouse, kind: str = "alone") -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", HOLDER, lakehouse.root, kind],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )


def line_of(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def end(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.communicate()


def test_number_grows_by_one_each_time(lakehouse: Lakehouse) -> None:
    numbers = []
    for _ in range(3):
        with hold_lease(lakehouse, "shop", now=clock) as lease:
            numbers.append(lease.number)

    assert numbers == [1, 2, 3]


def test_file_says_who_holds_it_and_until_when(lakehouse: Lakehouse) -> None:
    with hold_lease(lakehouse, "shop", now=clock) as lease:
        lease_body = body(lakehouse)

    assert lease.since == MOMENT
    assert (lease_body["host"], lease_body["pid"], lease_body["number"]) == (
        socket.gethostname(),
        os.getpid(),
        1,
    )
    assert (lease_body["since"], lease_body["expires"]) == (
        "2024-02-29T10:00:00.000Z",
        "2024-02-29T10:01:00.000Z",
    )
    assert lease_body["process_started"] == process_started(os.getpid())
    assert body(lakehouse) == {"number": 1, "released": "2024-02-29T10:00:00.000Z"}


def test_second_run_learns_who_holds_the_lease(lakehouse: Lakehouse) -> None:
    holder = start_holder(lakehouse)
    assert line_of(holder) == "held 1"
    before = body(lakehouse)

    with pytest.raises(MainstemError) as caught, hold_lease(lakehouse, "shop"):
        pass

    assert caught.value.condition == "LEASE_HELD"
    assert caught.value.exit_code == 1
    assert f"process {holder.pid}" in caught.value.found
    assert str(before["since"]) in caught.value.found
    assert body(lakehouse) == before
    end(holder)


def test_a_paused_owner_keeps_its_place_beyond_the_end_of_its_lease(lakehouse: Lakehouse) -> None:
    holder = start_holder(lakehouse)
    assert line_of(holder) == "held 1"
    holder.send_signal(signal.SIGSTOP)
    tomorrow = datetime.now(UTC) + timedelta(days=1)

    with pytest.raises(MainstemError) as caught, hold_lease(lakehouse, "shop", now=lambda: tomorrow):
        pass

    holder.send_signal(signal.SIGCONT)
    end(holder)
    assert caught.value.condition == "LEASE_HELD"


def test_other_pipelines_are_not_kept_out(lakehouse: Lakehouse) -> None:
    with hold_lease(lakehouse, "shop") as one, hold_lease(lakehouse, "crm") as other:
        assert (one.number, other.number) == (1, 1)


def test_lease_of_a_killed_owner_is_free_at_once(lakehouse: Lakehouse) -> None:
    holder = start_holder(lakehouse)
    assert line_of(holder) == "held 1"
    end(holder)

    with hold_lease(lakehouse, "shop") as lease:
        assert lease.number == 2


def test_next_holder_waits_for_the_child_of_a_killed_owner(
    lakehouse: Lakehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    holder = start_holder(lakehouse, "child")
    child = int(line_of(holder))
    assert line_of(holder) == "held 1"
    holder.kill()
    holder.wait()
    monkeypatch.setattr("framework.lakehouse.lease._ORPHAN_ENDS_WITHIN", 0.0)

    with pytest.raises(MainstemError) as caught, hold_lease(lakehouse, "shop"):
        pass
    os.kill(child, signal.SIGKILL)
    holder.communicate()
    monkeypatch.undo()

    assert caught.value.condition == "LEASE_ORPHAN"
    with hold_lease(lakehouse, "shop") as lease:
        assert lease.number == 2


def test_failure_inside_gives_the_lease_back(lakehouse: Lakehouse) -> None:
    with pytest.raises(ValueError, match="boom"), hold_lease(lakehouse, "shop"):
        raise ValueError("boom")

    with hold_lease(lakehouse, "shop") as lease:
        assert lease.number == 2


def test_torn_file_does_not_stop_the_next_run(lakehouse: Lakehouse) -> None:
    Path(lakehouse.checkpoints).mkdir()
    Path(lakehouse.checkpoints, "shop.lease").write_text('{"number": 4')

    with hold_lease(lakehouse, "shop") as lease:
        assert lease.number == 1


def test_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(MainstemError) as caught, hold_lease(Lakehouse(str(tmp_path / "file")), "shop"):
        pass

    assert caught.value.condition == "LEASE_UNAVAILABLE"


@pytest.mark.parametrize(
    ("reason", "advice"),
    [
        (errno.EACCES, "the right to write"),
        (errno.ELOOP, "remove the link"),
        (errno.ENOTDIR, "must be a folder"),
        (errno.ENOSPC, "free some space"),
        (errno.EROFS, "mounted read-only"),
        (errno.ENOLCK, "can lock files"),
        (errno.EOPNOTSUPP, "can lock files"),
    ],
)
def test_a_lease_that_is_unavailable_says_what_to_do(
    lakehouse: Lakehouse, monkeypatch: pytest.MonkeyPatch, reason: int, advice: str
) -> None:
    error = unavailable(lakehouse, monkeypatch, reason)
    assert os.strerror(reason) in error.found
    assert advice in error.action


def test_a_lease_of_another_user_names_him(lakehouse: Lakehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    with hold_lease(lakehouse, "shop"):
        pass
    owner = os.stat(Path(lakehouse.checkpoints, "shop.lease")).st_uid
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    assert "run as the user" in unavailable(lakehouse, monkeypatch, errno.EACCES).action


def unavailable(lakehouse: Lakehouse, monkeypatch: pytest.MonkeyPatch, reason: int) -> MainstemError:
    """The error of a lease whose file the system refuses to open."""

    def refuse(path: Path) -> int:
        raise OSError(reason, os.strerror(reason))

    monkeypatch.setattr("framework.lakehouse.lease.open_lock_file", refuse)
    with pytest.raises(MainstemError) as raised, hold_lease(lakehouse, "shop"):
        pass
    assert raised.value.condition == "LEASE_UNAVAILABLE"
    return raised.value


def test_object_store_has_no_lock() -> None:
    with hold_lease(Lakehouse("s3a://bucket/lake"), "shop", now=clock) as lease:
        assert lease.number == 0


def test_a_link_in_place_of_the_lease_is_not_followed(lakehouse: Lakehouse, tmp_path: Path) -> None:
    victim, lease = tmp_path / "victim", Path(lakehouse.checkpoints, "shop.lease")
    victim.write_text("mine")
    lease.parent.mkdir(parents=True)
    lease.symlink_to(victim)
    with pytest.raises(MainstemError) as raised, hold_lease(lakehouse, "shop", now=clock):
        pass
    assert (raised.value.condition, victim.read_text()) == ("LEASE_UNAVAILABLE", "mine")


def test_no_other_user_can_open_the_lease_and_lock_it(lakehouse: Lakehouse) -> None:
    lease = Path(lakehouse.checkpoints, "shop.lease")
    modes = []
    for earlier in (None, 0o644, 0o664):
        if earlier is not None:
            lease.chmod(earlier)
        with hold_lease(lakehouse, "shop", now=clock):
            modes.append(lease.stat().st_mode & 0o777)
    assert modes == [0o600, 0o600, 0o600]


def test_a_process_is_recognized_by_the_start_of_the_machine_and_not_by_its_clock() -> None:
    started = process_started(os.getpid())
    assert started is not None
    assert started.startswith(Path("/proc/sys/kernel/random/boot_id").read_text().strip())
