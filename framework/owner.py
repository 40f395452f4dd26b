"""Whose a lakehouse is: one pipeline's, for its tables, checkpoints and batch numbers are shared with no other."""

from __future__ import annotations

import os
from pathlib import Path

from pyspark.sql import SparkSession

from framework.errors import MainstemError
from framework.notes import is_local, read_note, write_note
from framework.tables import Lakehouse


def claim(spark: SparkSession, lake: Lakehouse, pipeline: str) -> None:
    """Make the lakehouse this pipeline's, for good; raises MainstemError LAKEHOUSE_TAKEN where it is another's."""
    path = _path(lake)
    if is_local(path) and not os.path.exists(path):
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        try:
            with open(path, "x", encoding="utf-8") as file:
                file.write(pipeline)
        except FileExistsError:
            pass  # another pipeline was faster: it is told below
    check_owner(spark, lake, pipeline)
    if not (read_note(spark, path) or "").strip():
        write_note(spark, path, pipeline)


def check_owner(spark: SparkSession, lake: Lakehouse, pipeline: str) -> None:
    """Raises MainstemError LAKEHOUSE_TAKEN where the lakehouse is another pipeline's."""
    path = _path(lake)
    owner = read_note(spark, path)
    if owner is not None and owner.strip() not in ("", pipeline):
        raise MainstemError(
            "LAKEHOUSE_TAKEN",
            found=f"the lakehouse of the pipeline '{owner.strip()}', and the configuration is that of '{pipeline}'",
            where=path,
            action=f"give '{pipeline}' a lakehouse of its own; if it is the same pipeline under a new name, write the name into that file"
            " after a run under the old name has ended well",
        )


def _path(lake: Lakehouse) -> str:
    return f"{lake.checkpoints}/pipeline"
