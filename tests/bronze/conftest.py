"""A feed of files in a temporary folder, and helpers to run it and to read what has landed."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from pydantic import BaseModel
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from bronze.job import SourceResult, land_sources
from bronze.source import Feed
from framework.config.sources import Source
from framework.contracts.table_names import MESSAGES_TABLE
from framework.lakehouse.lakehouse import Lakehouse
from framework.pipeline.progress import Progress

Drop = Callable[..., Path]
Landed = Callable[..., list[tuple[object, ...]]]
LONG_AGO = 1_700_000_000


class NoOptions(BaseModel):
    """A format without settings."""


def run_source(spark: SparkSession, feed: Feed) -> SourceResult:
    """Lands what is new in one source."""
    return land_sources(spark, [feed], Progress()).sources[0]


@pytest.fixture
def landing(tmp_path: Path) -> Path:
    folder = tmp_path / "landing"
    folder.mkdir()
    return folder


@pytest.fixture
def drop(landing: Path) -> Drop:
    """Writes a file with an old modification time into the landing folder."""

    def put(name: str, content: bytes, modified: float = LONG_AGO) -> Path:
        path = landing / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        os.utime(path, (modified, modified))
        return path

    return put


@pytest.fixture
def feed(tmp_path: Path, landing: Path) -> Feed:
    source = Source(name="orders", format="datahub_blob", files=str(landing), options=NoOptions())
    return Feed("shop", Lakehouse(str(tmp_path / "lakehouse")), source, "run-1")


@pytest.fixture
def landed(spark: SparkSession) -> Landed:
    """Reads columns of the messages of a source in bronze, in the order of file and line."""

    def read(feed: Feed, *columns: str) -> list[tuple[object, ...]]:
        if not feed.lake.exists(spark, MESSAGES_TABLE):
            return []
        messages = (
            feed.lake.read(spark, MESSAGES_TABLE).where(F.col("source") == feed.name).orderBy("file", "line")
        )
        return [
            tuple(_plain(value) for value in row)
            for row in messages.selectExpr(*(columns or ("file", "line", "value"))).collect()
        ]

    return read


def _plain(value: object) -> object:
    if isinstance(value, bytearray):
        return bytes(value)
    if isinstance(value, list | tuple):
        plain = [_plain(each) for each in value]
        return plain if isinstance(value, list) else tuple(plain)
    return value
