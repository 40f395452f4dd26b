"""Reads Delta tables of a local file system in this process: few rows take no Spark job.

What is unusual in a table (deletion vectors, column mapping, partitions, a version without its checksum file)
is not read here: the answer is None, and the caller asks Spark.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote

import pyarrow as pa

from framework.lakehouse.lakehouse import is_path

_WITHOUT_FEATURES, _WITH_FEATURES = 1, 3
"""Versions of a table's protocol for readers: as at first, and with a list of features."""
_HARMLESS = frozenset({"timestampNtz"})
"""Features that change no row, no name and no other type: a column is a time without a zone."""
_REWRITES = ("remove", "metaData", "protocol")
_FAULTS = (OSError, ValueError, KeyError, TypeError, AttributeError, pa.ArrowException)


class Mark(NamedTuple):
    """A version of a table; `table` is the id that Delta gave it, which a new table in its place lacks.

    Version -1 is the time before its first version.
    """

    table: str
    version: int


@dataclass(frozen=True, slots=True)
class DataFile:
    """A file of a table: its place, and how many rows and bytes it has."""

    path: Path
    rows: int
    size: int


@dataclass(frozen=True, slots=True)
class LocalTable:
    """The newest version of a table.

    Attributes:
        location: Where it is.
        mark: The version.
        schema: The columns, as Delta writes them in JSON.
        files: The files of its rows; None where they are many.
    """

    location: str
    mark: Mark
    schema: Mapping[str, Any]
    files: tuple[DataFile, ...] | None


def has_plain_files(version: int, features: Iterable[str] | None) -> bool:
    """Whether the files of a table with this protocol for readers are its rows, and no other ones."""
    return version == _WITHOUT_FEATURES or (version == _WITH_FEATURES and set(features or ()) <= _HARMLESS)


def local_table(location: str, version: int | None) -> LocalTable | None:
    """The table in its newest version, which is `version`; None where only Spark can read it."""
    if version is None or not is_path(location) or "://" in location:
        return None
    try:
        said = json.loads((_log(location) / f"{version:020d}.crc").read_text(encoding="utf-8"))
        metadata, protocol = said["metadata"], said["protocol"]
        features = protocol.get("readerFeatures")
        if not has_plain_files(protocol["minReaderVersion"], features) or metadata["partitionColumns"]:
            return None
        files = _files(location, said["allFiles"]) if said.get("allFiles") is not None else None
        if files is not None and (len(files), sum(file.size for file in files)) != (
            said["numFiles"],
            said["tableSizeBytes"],
        ):
            return None
        return LocalTable(
            location, Mark(metadata["id"], version), json.loads(metadata["schemaString"]), files
        )
    except _FAULTS:
        return None


def appended_files(location: str, since: Mark, until: Mark) -> tuple[DataFile, ...] | None:
    """The files of the rows that came after one version of a table, up to another.

    None where a commit between them did more than append rows, or is gone. Commits that only arrange the same
    rows in other files (OPTIMIZE) do not count.
    """
    if since.table != until.table or since.version > until.version:
        return None
    found: list[DataFile] = []
    try:
        for version in range(since.version + 1, until.version + 1):
            actions = _commit(location, version)
            if version and any(name in action for action in actions for name in _REWRITES[1:]):
                return None
            moves = [action[name] for action in actions for name in ("add", "remove") if name in action]
            if all(not move["dataChange"] for move in moves):
                continue
            if any(_REWRITES[0] in action for action in actions):
                return None
            found += _files(location, [action["add"] for action in actions if "add" in action])
    except _FAULTS:
        return None
    return tuple(found)


def files_since(table: LocalTable, version: int, moment: datetime) -> tuple[DataFile, ...] | None:
    """The files of the table that were not there in an earlier version, which was read at this moment.

    None where the log lacks a commit, the table has many files, or is not the one that was read then.
    """
    if table.files is None or version > table.mark.version:
        return None
    try:
        made = next(
            action["commitInfo"] for action in _commit(table.location, version) if "commitInfo" in action
        )
        if made["timestamp"] > moment.timestamp() * 1000:
            return None
        added = {
            Path(table.location) / unquote(action["add"]["path"])
            for later in range(version + 1, table.mark.version + 1)
            for action in _commit(table.location, later)
            if "add" in action
        }
    except _FAULTS:
        return None
    return tuple(file for file in table.files if file.path in added)


def read_files(files: Sequence[DataFile], columns: Iterable[str]) -> pa.Table | None:
    """These columns of the files' rows; None where a file is gone, or lacks one of the columns."""
    from pyarrow import parquet  # slow to load, and most commands read no file here

    names, found = list(columns), []
    try:
        for file in files:
            with parquet.ParquetFile(
                file.path, coerce_int96_timestamp_unit="us", page_checksum_verification=True
            ) as opened:
                if not set(names) <= set(opened.schema_arrow.names):
                    return None
                found.append(opened.read(columns=names).select(names))
        return pa.concat_tables(found) if found else None
    except _FAULTS:
        return None


def parts_of_files(
    files: Iterable[DataFile], columns: Iterable[str], rows: int = 65_536, repeated: Iterable[str] = ()
) -> Iterator[pa.RecordBatch]:
    """These columns of the files' rows, in parts of at most so many rows.

    Texts that are repeated in many rows can come as dictionaries. `name.key_value.key` has the names in a
    column of maps, without their values, as a list under the column's name.

    Raises:
        OSError, pa.ArrowException: A file is gone, or cannot be read.
        KeyError: A file lacks a column.
    """
    from pyarrow import parquet

    names = list(columns)
    for file in files:
        with parquet.ParquetFile(
            file.path,
            read_dictionary=list(repeated),
            coerce_int96_timestamp_unit="us",
            page_checksum_verification=True,
        ) as opened:
            lacking = {name.partition(".")[0] for name in names} - set(opened.schema_arrow.names)
            if lacking:
                raise KeyError(*sorted(lacking))
            yield from opened.iter_batches(rows, columns=names)


def in_micros(rows: pa.Table, names: Iterable[str]) -> pa.Table:
    """The rows with these times as numbers of microseconds, which have no time zone."""
    for name in names:
        times = rows[name].cast(pa.timestamp("us")).cast(pa.int64())
        rows = rows.set_column(rows.schema.get_field_index(name), name, times)
    return rows


def _log(location: str) -> Path:
    return Path(location) / "_delta_log"


def _commit(location: str, version: int) -> list[dict[str, Any]]:
    """The actions of a commit; raises OSError where it is gone."""
    lines = (_log(location) / f"{version:020d}.json").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines if line]


def _files(location: str, adds: Iterable[Mapping[str, Any]]) -> tuple[DataFile, ...]:
    """The files that commits have added; raises ValueError where one is not a plain file of rows."""
    found = []
    for add in adds:
        place = Path(unquote(add["path"]))
        if add.get("deletionVector") or add["partitionValues"] or place.is_absolute() or ".." in place.parts:
            raise ValueError("no plain file of rows")
        found.append(
            DataFile(Path(location) / place, int(json.loads(add["stats"])["numRecords"]), add["size"])
        )
    return tuple(found)
