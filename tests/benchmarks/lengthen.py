"""Makes a lakehouse old without the runs that would take hours: each round is one commit more of each log.

The newest round of a real lakehouse is repeated: the Parquet file of its commit is written again as a commit
of its own, with another file name, change ids and batch. What the tables count agrees, so that later rounds,
`status` and the checks find nothing wrong. The messages must not be decoded again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable
from pyarrow import parquet

from framework.contracts.batch_ids import BATCH_ID_STEP
from framework.lakehouse.log_files import newest_version
from framework.pipeline.layer import Run

_Change = Callable[[Any, int], Any]
MOST_ROUNDS = BATCH_ID_STEP - 1
"""The batches between two of the stream, which these rounds take."""


def _next(value: int, number: int) -> int:
    return value + number


def _named(value: str, number: int) -> str:
    return f"{number}-{value}"


def _digest(value: str, number: int) -> str:
    return f"{value[:-4]}{number:04x}"


def _partner(value: Mapping[str, Any] | None, number: int) -> Mapping[str, Any] | None:
    return None if value is None else {**value, "topic": _named(value["topic"], number)}


def _later(value: Any, number: int) -> Any:
    return value + timedelta(milliseconds=number)


_CHANGES: Mapping[str, Mapping[str, _Change]] = {
    "bronze/messages": {"topic": _named, "file": _named},
    "silver/changes": {"change_id": _digest, "batch": _next, "topic": _named, "paired_with": _partner},
    "ops/batches": {"batch": _next},
    "ops/tables": {"revision": _next, "batch": _next},
    "ops/quality_results": {"started_at": _later, "checked_at": _later},
    "ops/runs": {"run_id": _named, "finished_at": _later},
}
_FILES: Mapping[str, _Change] = {"file": _named, "path": _named, "sequence": _next}


def lengthen(run: Run, rounds: int) -> None:
    """Repeats the newest round so often, in a lakehouse of files on a local disk; it has updated rows."""
    assert rounds <= MOST_ROUNDS, rounds
    changes = {name: columns for name, columns in _CHANGES.items() if run.lake.exists(run.spark, name)}
    changes |= {f"ops/files/{source}": _FILES for source in run.config.sources}
    for name, columns in changes.items():
        is_read = name == "bronze/messages" or columns is _FILES  # the streams over them take no notice
        repeat(run.lake.location(name), rounds, columns, is_read=is_read)
    for source in run.config.sources:
        note = Path(run.lake.checkpoints, "bronze", f"{source}.landed")
        said = json.loads(note.read_text())
        memory = json.loads(said["memory"])
        memory["landed"] += rounds
        note.write_text(json.dumps({**said, "memory": json.dumps(memory)}))


def repeat(
    location: str, rounds: int, columns: Mapping[str, _Change] | None = None, *, is_read: bool = False
) -> None:
    """Repeats the newest commit of a table so often.

    Args:
        location: The table, whose newest commit has appended one file.
        rounds: How often.
        columns: How columns change with the number of the round.
        is_read: Streams over the table take no notice.
    """
    folder, log = Path(location), Path(location) / "_delta_log"
    version = newest_version(log)
    assert version is not None, location
    actions = [json.loads(line) for line in (log / f"{version:020d}.json").read_text().splitlines() if line]
    (add,) = (action["add"] for action in actions if "add" in action)
    info = next(action["commitInfo"] for action in actions if "commitInfo" in action)
    rows = parquet.read_table(folder / add["path"], coerce_int96_timestamp_unit="us")
    for number in range(1, rounds + 1):
        mine = _changed(rows, columns or {}, number)
        path = f"repeated-{version + number}.parquet"
        parquet.write_table(mine, folder / path)
        said = {
            **add,
            "path": path,
            "size": (folder / path).stat().st_size,
            "dataChange": not is_read,
            "stats": json.dumps(_statistics(json.loads(add["stats"]), mine, columns or {})),
        }
        lines = [{"commitInfo": info}, {"add": said}]
        (log / f"{version + number:020d}.json").write_text("\n".join(map(json.dumps, lines)) + "\n")
    DeltaTable(location).create_checkpoint()


def _changed(rows: pa.Table, columns: Mapping[str, _Change], number: int) -> pa.Table:
    for name, change in columns.items():
        field = rows.schema.field(name)
        cells = [None if cell is None else change(cell, number) for cell in rows[name].to_pylist()]
        rows = rows.set_column(rows.schema.get_field_index(name), field, pa.array(cells, field.type))
    return rows


def _statistics(told: Mapping[str, Any], rows: pa.Table, columns: Iterable[str]) -> Mapping[str, Any]:
    """The statistics of the file, with the bounds of the changed columns."""
    low, high = dict(told.get("minValues", {})), dict(told.get("maxValues", {}))
    for name in columns:
        if name not in low:
            continue
        cells = [cell for cell in rows[name].to_pylist() if cell is not None]
        bounds = (min(cells), max(cells))
        for bound, found in zip(bounds, (low, high), strict=True):
            found[name] = bound if isinstance(bound, (int, str)) else bound.isoformat(timespec="milliseconds")
    return {**told, "minValues": low, "maxValues": high}
