"""The rows of a log that still count, kept beside the checkpoints: a run reads only what came after them.

The logs in `ops` get a file with every run, and a run must know their newest rows. On a local file system it
keeps these rows in a file of its own, with the commit of the log up to which they count, and reads the files
of later commits. The file is a copy: it is used only if the log still has that commit, and has had only rows
appended since then. Else the log is read whole, and the rows are kept again.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa

from framework.lakehouse.lakehouse import Lakehouse, local_log
from framework.lakehouse.lakehouse import local_table as local_folder
from framework.lakehouse.local_tables import Mark, appended_files, local_table, read_files
from framework.lakehouse.log_files import commit_file, newest_version
from framework.lakehouse.newest_tables import is_read_locally
from framework.lakehouse.table_reader import Row

_FORM = "1"
_MOST_COMMITS = 8
"""How many commits are read again in each run before the rows are kept anew."""
_MOST_ROWS = 10_000
"""How many rows that may not count are held at once while a log is read whole."""
_FOLDER = "kept"


@dataclass(frozen=True, slots=True)
class Log:
    """A log, and which of its rows count.

    Attributes:
        table: Its name.
        columns: The columns of the rows.
        reduce: Returns the rows that count. To reduce some rows, and then the result with other ones, gives
            the same as to reduce all of them at once.
        until: A number that `reduce` depends on. Rows that were reduced with a lower number can be reduced
            with a higher one, but not the other way round.
    """

    table: str
    columns: tuple[str, ...]
    reduce: Callable[[Iterable[Row]], Sequence[Row]]
    until: int = 0


@dataclass(frozen=True, slots=True)
class _Kept:
    """Rows that count up to a commit; `commit` identifies the file of that commit, too."""

    mark: Mark
    commit: str
    until: int
    rows: pa.Table


@dataclass(frozen=True, slots=True)
class _Found:
    """The rows of a log that count up to a version, and how many commits the kept ones lack."""

    rows: Sequence[Row]
    schema: pa.Schema
    mark: Mark
    lacking: int = _MOST_COMMITS


def kept_rows(lake: Lakehouse, log: Log) -> Sequence[Row] | None:
    """The rows of a log that count; None where the log must be read: then `keep_rows` keeps them."""
    if lake.added or not is_read_locally(lake):
        return None
    found = _newest(lake, log)
    return None if found is None else found.rows


def keep_rows(lake: Lakehouse, *logs: Log) -> None:
    """Keeps the rows of these logs that count, where this process reads the logs.

    Rows that lack only few commits stay. Nothing fails here: a run that keeps nothing makes the next one read
    more.
    """
    if lake.added or not is_read_locally(lake):
        return
    for log in logs:
        location = lake.location(log.table)
        if local_folder(location) is None:
            continue
        with suppress(Exception):
            found = _newest(lake, log) or _whole(location, log)
            commit = _commit(location, found.mark.version)
            if commit is not None and found.lacking >= _MOST_COMMITS:
                rows = pa.Table.from_pylist([dict(row) for row in found.rows], found.schema)
                _write(_path(lake, log), _Kept(found.mark, commit, log.until, rows))


def forget_kept_rows(lake: Lakehouse) -> None:
    """Deletes what is kept of all logs, so that it has nothing that was erased from them."""
    if lake.local_root is not None:
        shutil.rmtree(Path(lake.checkpoints, _FOLDER), ignore_errors=True)


def _newest(lake: Lakehouse, log: Log) -> _Found | None:
    """The kept rows with those of later commits; None where the kept ones do not fit the log."""
    kept, location = _read(_path(lake, log)), lake.location(log.table)
    folder = local_log(location)
    if kept is None or folder is None or kept.until > log.until:
        return None
    if kept.rows.schema.names != list(log.columns):  # an earlier release kept them
        return None
    table = local_table(location, newest_version(folder))
    if table is None or kept.commit != _commit(location, kept.mark.version):
        return None
    files = appended_files(location, kept.mark, table.mark)
    new = read_files(files, log.columns) if files else None
    if files is None or (files and new is None):
        return None
    schema, rows = kept.rows.schema, kept.rows.to_pylist()
    try:
        rows += [] if new is None else new.cast(schema).to_pylist()
    except pa.ArrowException:  # the columns have other types now
        return None
    return _Found(log.reduce(rows), schema, table.mark, table.mark.version - kept.mark.version)


def _whole(location: str, log: Log) -> _Found:
    """The rows of the newest version that count, read whole, a part at a time: old logs are large."""
    from pyarrow import dataset

    from framework.lakehouse.local_reader import open_plain  # the package takes long to load

    opened = open_plain(location)
    stored: Any = opened.schema().to_arrow()
    schema = pa.schema([pa.schema(stored).field(name) for name in log.columns])
    paths = pa.table(opened.get_add_actions()).column("path").to_pylist()
    files = [str(Path(location) / unquote(str(path))) for path in paths]
    form = dataset.ParquetFileFormat(coerce_int96_timestamp_unit="us")
    rows: list[Row] = []
    counted = 0
    for part in dataset.dataset(files, schema, format=form).to_batches():
        rows += part.to_pylist()
        if len(rows) > 2 * counted + _MOST_ROWS:
            rows = list(log.reduce(rows))
            counted = len(rows)
    return _Found(log.reduce(rows), schema, Mark(str(opened.metadata().id), opened.version()))


def _commit(location: str, version: int) -> str | None:
    """A text that identifies a commit; None where its file cannot be read."""
    try:
        return commit_file(Path(location) / "_delta_log", version)
    except OSError:
        return None


def _path(lake: Lakehouse, log: Log) -> Path:
    return Path(lake.checkpoints, _FOLDER, f"{log.table.replace('/', '.')}.parquet")


def _read(path: Path) -> _Kept | None:
    from pyarrow import parquet  # slow to load, and most commands keep nothing

    try:
        with parquet.ParquetFile(path) as file:
            rows = file.read()
        said = json.loads((rows.schema.metadata or {})[b"kept"])
        mark = Mark(*said["mark"])
        return _Kept(mark, said["commit"], said["until"], rows) if said["form"] == _FORM else None
    except (OSError, ValueError, KeyError, TypeError, pa.ArrowException):
        return None


def _write(path: Path, kept: _Kept) -> None:
    """Writes a file at once or not at all."""
    from pyarrow import parquet

    said = {"form": _FORM, "mark": kept.mark, "commit": kept.commit, "until": kept.until}
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}.tmp")
    try:
        with draft.open("xb") as file:
            parquet.write_table(kept.rows.replace_schema_metadata({"kept": json.dumps(said)}), file)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
