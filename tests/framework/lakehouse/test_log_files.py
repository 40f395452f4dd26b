from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import pytest

from framework.lakehouse import log_files
from framework.lakehouse.log_files import (
    has_versions,
    is_newest_commit,
    newest_properties,
    newest_transaction,
    newest_version,
)


@pytest.fixture
def listings() -> Iterator[mock.Mock]:
    with mock.patch.object(log_files, "_newest_listed", wraps=log_files._newest_listed) as listed:
        yield listed


def _write(log: Path, *versions: int, checkpoint: int | str | None = None) -> None:
    log.mkdir(exist_ok=True)
    for version in versions:
        (log / f"{version:020d}.json").write_text("{}")
        (log / f"{version:020d}.crc").write_text("{}")
    if checkpoint is not None:
        said = checkpoint if isinstance(checkpoint, str) else json.dumps({"version": checkpoint, "size": 5})
        (log / "_last_checkpoint").write_text(said)


def test_the_newest_version_of_an_old_table_is_found_without_a_listing(
    tmp_path: Path, listings: mock.Mock
) -> None:
    _write(tmp_path, *range(95), checkpoint=90)
    assert newest_version(tmp_path) == 94
    _write(tmp_path, checkpoint=94)
    assert newest_version(tmp_path) == 94
    assert not listings.called


def test_a_young_table_has_no_checkpoint(tmp_path: Path) -> None:
    assert newest_version(tmp_path / "_delta_log") is None
    assert newest_version(tmp_path) is None
    _write(tmp_path, 0, 1, 2)
    assert newest_version(tmp_path) == 2


@pytest.mark.parametrize("checkpoint", ["", "{", "[]", "{}", '{"version": null}', '{"version": "later"}'])
def test_a_pointer_that_is_unreadable_does_not_count(tmp_path: Path, checkpoint: str) -> None:
    _write(tmp_path, 7, 8, 9, checkpoint=checkpoint)
    assert newest_version(tmp_path) == 9


def test_a_pointer_beyond_the_newest_commit_does_not_count(tmp_path: Path) -> None:
    # as after a restore of the commits alone
    _write(tmp_path, 0, 1, 2, checkpoint=10)
    assert newest_version(tmp_path) == 2


def test_a_table_has_versions_once_a_commit_or_a_checkpoint_is_there(tmp_path: Path) -> None:
    log = tmp_path / "_delta_log"
    assert not has_versions(log)
    log.mkdir()
    (log / ".00000000000000000000.json.crc").touch()
    assert not has_versions(log)
    (log / "00000000000000000010.checkpoint.parquet").touch()
    assert has_versions(log)
    assert not has_versions(log / "00000000000000000010.checkpoint.parquet")


def test_the_checksum_of_the_newest_commit_has_the_properties(tmp_path: Path) -> None:
    assert newest_properties(tmp_path) is None
    _write(tmp_path, 0, 1, 2)
    assert newest_properties(tmp_path) is None
    for version, value in enumerate("abc"):
        said = {"metadata": {"configuration": {"own": value}}}
        (tmp_path / f"{version:020d}.crc").write_text(json.dumps(said))
    assert newest_properties(tmp_path) == {"own": "c"}
    (tmp_path / f"{2:020d}.crc").write_text('{"metadata"')
    assert newest_properties(tmp_path) is None
    (tmp_path / f"{2:020d}.crc").unlink()
    assert newest_properties(tmp_path) is None


def test_a_commit_is_the_newest_one_if_no_other_follows_it_and_none_took_its_place(tmp_path: Path) -> None:
    first, second = (tmp_path / f"{version:020d}.json" for version in (0, 1))
    assert not is_newest_commit(tmp_path, 0, 0)
    first.write_text("{}")
    os.utime(first, ns=(0, 1_700_000_000_123_456_789))
    assert is_newest_commit(tmp_path, 0, 1_700_000_000_123)
    assert not is_newest_commit(tmp_path, 0, 1_700_000_000_124)
    second.write_text("{}")
    assert not is_newest_commit(tmp_path, 0, 1_700_000_000_123)


def test_the_newest_transaction_of_an_application_is_in_the_checksum_or_the_newest_commits(
    tmp_path: Path,
) -> None:
    assert newest_transaction(tmp_path / "none", "a") is None
    _write(tmp_path, 3)
    for version, app_id in ((0, "a"), (1, "b"), (2, "a")):
        done = {"txn": {"appId": app_id, "version": 10 + version}}
        text = f'{{"commitInfo":{{}}}}\n{json.dumps(done, separators=(",", ":"))}\n'
        (tmp_path / f"{version:020d}.json").write_text(text)
    assert [newest_transaction(tmp_path, app_id) for app_id in "abc"] == [12, 11, None]
    told = {"setTransactions": [{"appId": "a", "version": 7}]}
    (tmp_path / f"{3:020d}.crc").write_text(json.dumps(told))
    assert [newest_transaction(tmp_path, app_id) for app_id in "ab"] == [7, None]
