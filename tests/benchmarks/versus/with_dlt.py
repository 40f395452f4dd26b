"""dlt's merge into Delta: a round for each line of the standard input. Runs in an environment of its own.

`rows` gives dlt a dictionary for each row, as its documentation does; `arrow` gives it Arrow tables,
which it need not look through.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import dlt
import pyarrow as pa
from dlt.common import json
from dlt.sources.filesystem import filesystem

_COLUMNS: dict[str, Any] = {
    "id": {"data_type": "bigint"},
    "n": {"data_type": "bigint"},
    "amount": {"data_type": "decimal", "precision": 18, "scale": 4},
    "at": {"data_type": "timestamp", "timezone": False, "precision": 6},
    **{f"s{i}": {"data_type": "text"} for i in range(6)},
    "deleted": {"data_type": "bool", "hard_delete": True},
}
_ARROW = pa.schema(
    {
        "id": pa.int64(),
        "n": pa.int64(),
        "amount": pa.decimal128(18, 4),
        "at": pa.timestamp("us"),
        **{f"s{i}": pa.string() for i in range(6)},
        "deleted": pa.bool_(),
    }
)
_PAGE = 10_000


def main(folder: Path, way: str) -> None:
    for _ in sys.stdin:
        pipeline = dlt.pipeline(
            "versus",
            destination=dlt.destinations.filesystem(bucket_url=(folder / "made").as_uri()),
            dataset_name="shop",
            pipelines_dir=str(folder / "dlt"),
        )
        files = filesystem(
            bucket_url=(folder / "landing").as_uri(),
            file_glob="*.jsonl",
            incremental=dlt.sources.incremental("modification_date"),
        )
        changes = dlt.transformer(
            _arrow if way == "arrow" else _rows,
            name="item",
            table_format="delta",
            write_disposition={"disposition": "merge", "strategy": "upsert"},
            primary_key="id",
            columns=_COLUMNS,
        )
        pipeline.run(files | changes).raise_on_failed_jobs()
        print("round done", flush=True)


def _rows(files: list[Any]) -> Iterator[list[dict[str, Any]]]:
    rows = list(_newest(files))
    for start in range(0, len(rows), _PAGE):
        yield rows[start : start + _PAGE]


def _arrow(files: list[Any]) -> Iterator[pa.Table]:
    rows = [
        {**row, "amount": Decimal(row["amount"]), "at": datetime.fromisoformat(row["at"])}
        for row in _newest(files)
    ]
    yield pa.Table.from_pylist(rows, schema=_ARROW)


def _newest(files: list[Any]) -> Iterator[dict[str, Any]]:
    """The newest change of each key: an upsert takes one row for a key, in whatever order."""
    newest: dict[int, tuple[int, dict[str, Any]]] = {}
    for file in files:
        with file.open(mode="rb") as lines:
            for line in lines:
                payload = json.loadb(line)["payload"]
                if payload["op"] == "UPDATE_BEFOR":
                    continue
                is_deleted = payload["op"] == "DELETE"
                row = payload["before" if is_deleted else "after"]["dataColumn"]
                sequence = int(payload["sequenceId"])
                if row["id"] not in newest or newest[row["id"]][0] < sequence:
                    newest[row["id"]] = sequence, {**row, "deleted": is_deleted}
    return (row for _, row in newest.values())


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
