from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

from framework.lakehouse.delta_row_count import rows_by_log


def numbers(*values: int) -> pa.Table:
    return pa.table({"id": list(values)})


def test_rows_are_those_of_the_newest_version(tmp_path: Path) -> None:
    place = str(tmp_path / "orders")
    write_deltalake(place, numbers(1, 2, 3))
    write_deltalake(place, numbers(4, 5), mode="append")
    assert rows_by_log(Path(place)) == 5
    DeltaTable(place).delete("id = 2")
    assert rows_by_log(Path(place)) == 4
    write_deltalake(place, numbers(9), mode="overwrite")
    assert rows_by_log(Path(place)) == 1


def test_a_checkpoint_stands_for_the_commits_before_it(tmp_path: Path) -> None:
    place = str(tmp_path / "orders")
    for at in range(4):
        write_deltalake(place, numbers(at, at + 10), mode="append")
    DeltaTable(place).delete("id = 10")
    DeltaTable(place).create_checkpoint()
    for version in range(4):
        (tmp_path / "orders" / "_delta_log" / f"{version:020d}.json").unlink()
    assert rows_by_log(Path(place)) == 7
    write_deltalake(place, numbers(7), mode="append")
    assert rows_by_log(Path(place)) == 8


def test_deleted_rows_of_a_file_do_not_count(tmp_path: Path) -> None:
    log = tmp_path / "orders" / "_delta_log"
    log.mkdir(parents=True)
    add = {"path": "a.parquet", "stats": json.dumps({"numRecords": 10})}
    vector = {"storageType": "u", "pathOrInlineDv": "abc", "offset": 1, "cardinality": 4}
    (log / f"{0:020d}.json").write_text(json.dumps({"add": add}, separators=(",", ":")))
    assert rows_by_log(tmp_path / "orders") == 10
    actions = [{"add": {**add, "deletionVector": vector}}, {"remove": {"path": "a.parquet"}}]
    (log / f"{1:020d}.json").write_text(
        "\n".join(json.dumps(action, separators=(",", ":")) for action in actions)
    )
    assert rows_by_log(tmp_path / "orders") == 6


def test_what_the_log_does_not_tell_is_not_known(tmp_path: Path) -> None:
    log = tmp_path / "orders" / "_delta_log"
    assert rows_by_log(tmp_path / "orders") is None
    log.mkdir(parents=True)
    (log / f"{0:020d}.json").write_text('{"add":{"path":"a.parquet"}}')
    assert rows_by_log(tmp_path / "orders") is None
    (log / f"{2:020d}.json").write_text("{}")
    assert rows_by_log(tmp_path / "orders") is None
