"""Counts the rows of a Delta table on the local file system from its log, without a Spark job."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

_File = tuple[str, str]


def rows_by_log(table: Path) -> int | None:
    """The number of rows in the newest version; None where the log does not have it (no statistics)."""
    log = table / "_delta_log"
    try:
        start, live = _checkpoint(log)
        for version in _commits(log, start):
            _follow(live, version)
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return None if start < 0 and not live and not log.is_dir() else _sum(live.values())


def _checkpoint(log: Path) -> tuple[int, dict[_File, int | None]]:
    """The version of the last checkpoint and its files; -1 where there is none."""
    pointer = log / "_last_checkpoint"
    if not pointer.is_file():
        return -1, {}
    said = json.loads(pointer.read_text(encoding="utf-8"))
    version, parts = int(said["version"]), said.get("parts")
    if parts is None:
        files = [log / f"{version:020d}.checkpoint.parquet"]
    else:
        files = [
            log / f"{version:020d}.checkpoint.{part:010d}.{parts:010d}.parquet"
            for part in range(1, parts + 1)
        ]
    from pyarrow import parquet  # slow to import, and most tables have no checkpoint

    live: dict[_File, int | None] = {}
    for file in files:
        for row in parquet.ParquetFile(file).read(columns=["add"]).column("add").to_pylist():
            if row is not None:
                live[_identity(row)] = _rows(row)
    return version, live


def _commits(log: Path, after: int) -> Iterator[Iterable[str]]:
    """The commits after a version, each as its lines; raises ValueError where one between is missing."""
    versions = sorted(
        int(file.stem) for file in log.glob("*.json") if len(file.stem) == 20 and file.stem.isdigit()
    )
    newer = [version for version in versions if version > after]
    if newer and newer != list(range(after + 1, newer[-1] + 1)):
        raise ValueError("a commit is missing")
    for version in newer:
        yield (log / f"{version:020d}.json").read_text(encoding="utf-8").splitlines()


def _follow(live: dict[_File, int | None], lines: Iterable[str]) -> None:
    # a commit may remove a file and add it again with other deleted rows: first what goes, then what comes
    actions = [json.loads(line) for line in lines if line.startswith(('{"add"', '{"remove"'))]
    for action in actions:
        if "remove" in action:
            live.pop(_identity(action["remove"]), None)
    for action in actions:
        if "add" in action:
            live[_identity(action["add"])] = _rows(action["add"])


def _identity(action: dict[str, Any]) -> _File:
    vector = action.get("deletionVector")
    return action[
        "path"
    ], f"{vector['storageType']}{vector['pathOrInlineDv']}@{vector.get('offset')}" if vector else ""


def _rows(add: dict[str, Any]) -> int | None:
    stats = json.loads(add["stats"]) if add.get("stats") else {}
    if "numRecords" not in stats:
        return None
    vector = add.get("deletionVector")
    return int(stats["numRecords"]) - (int(vector["cardinality"]) if vector else 0)


def _sum(counts: Iterable[int | None]) -> int | None:
    total = 0
    for count in counts:
        if count is None:
            return None
        total += count
    return total
