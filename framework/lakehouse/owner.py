"""The owner of a lakehouse: one pipeline, whose tables, checkpoints and batch numbers are its own.

Beside the checkpoints, a note names the pipeline. In a catalog the checkpoints are in a folder that the
tables do not know, so `bronze/messages` has the id of that folder as a property; the folder has it in a note,
which goes with it where it is moved.
"""

from __future__ import annotations

import fcntl
import json
import os
import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from framework.contracts.table_names import MESSAGES_TABLE
from framework.errors import MainstemError
from framework.lakehouse.lakehouse import Lakehouse, sql_name, sql_text, table_properties
from framework.lakehouse.small_files import read_note, write_note
from framework.private_files import open_lock_file

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


TABLE_ID = "mainstem.table"
"""The property of `bronze/messages` that tells it from another one in its place."""
_FOLDER_ID, _PIPELINE = "mainstem.checkpoints", "mainstem.pipeline"


def claim(spark: SparkSession, lake: Lakehouse, pipeline: str, sources: Iterable[str] = ()) -> None:
    """Make this pipeline the owner for good.

    Args:
        spark: The session.
        lake: The lakehouse.
        pipeline: The name of the pipeline.
        sources: Its sources. If a checkpoint of one belongs to the tables of an earlier release, these are
            the pipeline's.

    Raises:
        MainstemError: LAKEHOUSE_TAKEN if another pipeline is the owner.
    """
    path = _path(lake)
    with _one_at_a_time(lake):
        _check_name(spark, lake, pipeline)
        properties = _messages_properties(spark, lake)
        known = _folder_id(spark, lake)
        owner = properties.get(_FOLDER_ID)
        if owner not in (None, known):
            raise _taken(lake, pipeline, properties)
        if not (read_note(spark, path) or "").strip():
            write_note(spark, path, pipeline)
        if lake.catalog is not None and known is None:
            write_note(spark, _id_path(lake), uuid.uuid4().hex)
        if properties and owner is None and _has_landed(spark, lake, sources, properties.get(TABLE_ID)):
            pairs = ", ".join(
                f"{sql_text(k)} = {sql_text(v)}" for k, v in owner_properties(spark, lake).items()
            )
            spark.sql(f"ALTER TABLE {sql_name(lake.location(MESSAGES_TABLE))} SET TBLPROPERTIES ({pairs})")


def owner_properties(spark: SparkSession, lake: Lakehouse) -> dict[str, str]:
    """The properties by which a new `bronze/messages` tells its owner, who has claimed the lakehouse."""
    known = _folder_id(spark, lake)
    if known is None:
        return {}
    return {_FOLDER_ID: known, _PIPELINE: (read_note(spark, _path(lake)) or "").strip()}


def landing_checkpoint(lake: Lakehouse, source: str) -> str:
    """The folder of the checkpoint of the stream that lands a source's messages."""
    return f"{lake.checkpoints}/bronze/{source}"


def landing_note(lake: Lakehouse, source: str) -> str:
    """The note on that checkpoint: the `table` that it lands in, among others."""
    return f"{landing_checkpoint(lake, source)}.generation"


@contextmanager
def _one_at_a_time(lake: Lakehouse) -> Iterator[None]:
    """Prevent that two pipelines claim a lakehouse at once; an object store or a volume has no lock for it.

    The lock is on a private file: other users can lock the folder if they can read it.
    """
    if lake.local_root is None:
        yield
        return
    lock = Path(f"{_path(lake)}.lock")
    lock.parent.mkdir(parents=True, exist_ok=True)
    descriptor = open_lock_file(lock)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def check_owner(spark: SparkSession | None, lake: Lakehouse, pipeline: str) -> None:
    """Raises MainstemError LAKEHOUSE_TAKEN where another pipeline owns the lakehouse.

    A lakehouse on a local file system needs no session.
    """
    _check_name(spark, lake, pipeline)
    known = None if spark is None else _folder_id(spark, lake)
    if spark is not None and known is not None:
        properties = _messages_properties(spark, lake)
        if properties.get(_FOLDER_ID, known) != known:
            raise _taken(lake, pipeline, properties)


def _check_name(spark: SparkSession | None, lake: Lakehouse, pipeline: str) -> None:
    path = _path(lake)
    owner = read_note(spark, path)
    if owner is not None and owner.strip() not in ("", pipeline):
        raise MainstemError(
            "LAKEHOUSE_TAKEN",
            found=f"the lakehouse of the pipeline '{owner.strip()}', "
            f"and the configuration is that of '{pipeline}'",
            where=path,
            action=f"give '{pipeline}' a lakehouse of its own; "
            "if it is the same pipeline under a new name, write the name into that file"
            " after a run under the old name has ended well",
        )


def _taken(lake: Lakehouse, pipeline: str, properties: Mapping[str, str]) -> MainstemError:
    return MainstemError(
        "LAKEHOUSE_TAKEN",
        found=f"the tables belong to the pipeline '{properties.get(_PIPELINE)}', whose checkpoints are in"
        f" another folder than {lake.checkpoints}",
        where=lake.location(MESSAGES_TABLE),
        action=f"give '{pipeline}' a catalog or a `schema_prefix` of its own; if it is the same pipeline,"
        " name its folder under `checkpoints:`, or copy that to the new place; if it is lost for good, write"
        f" {properties[_FOLDER_ID]} into {_id_path(lake)}",
    )


def _messages_properties(spark: SparkSession, lake: Lakehouse) -> Mapping[str, str]:
    """The properties of `bronze/messages` in a catalog; none where there is no such table."""
    if lake.catalog is None or not lake.exists(spark, MESSAGES_TABLE):
        return {}
    return table_properties(spark, lake.location(MESSAGES_TABLE))


def _has_landed(spark: SparkSession, lake: Lakehouse, sources: Iterable[str], table: str | None) -> bool:
    """Whether a checkpoint of one of the sources is that of a stream into the table with this id."""
    notes = (json.loads(read_note(spark, landing_note(lake, source)) or "{}") for source in sources)
    return table is not None and any(note.get("table") == table for note in notes)


def _folder_id(spark: SparkSession, lake: Lakehouse) -> str | None:
    """The id of the folder of checkpoints; None where it has none, and of a lakehouse in no catalog."""
    return None if lake.catalog is None else (read_note(spark, _id_path(lake)) or "").strip() or None


def _id_path(lake: Lakehouse) -> str:
    return f"{_path(lake)}.id"


def _path(lake: Lakehouse) -> str:
    return f"{lake.checkpoints}/pipeline"
