"""A feed of files in a temporary folder, and the few ways in which tests look at what it has landed."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from pydantic import BaseModel
from pyspark.sql import SparkSession

from bronze.source import MESSAGES_TABLE, Feed
from framework.config_sources import Source
from framework.tables import Lakehouse

Drop = Callable[..., Path]
LONG_AGO = 1_700_000_000


class NoOptions(BaseModel):
    """A format without settings."""


@pytest.fixture
def landing(tmp_path: Path) -> Path:
    folder = tmp_path / "landing"
    folder.mkdir()
    return folder


@pytest.fixture
def drop(landing: Path) -> Drop:
    """Puts a file that was finished long ago into the landing folder."""

    def put(name: str, content: bytes, modified: float = LONG_AGO) -> Path:
        path = landing / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        os.utime(path, (modified, modified))
        return path

    return put


@pytest.fixture
def feed(tmp_path: Path, landing: Path) -> Feed:
    return make_feed(tmp_path, landing)


def make_feed(tmp_path: Path, folder: Path | str, layout: str = "lines", run_id: str = "run-1", name: str = "orders") -> Feed:
    source = Source(name=name, format="datahub_blob", files=str(folder), layout=layout, options=NoOptions())
    return Feed("shop", Lakehouse(str(tmp_path / "lakehouse")), source, run_id)


def landed(spark: SparkSession, feed: Feed, *columns: str) -> list[tuple[object, ...]]:
    """The source's messages in bronze, by file and line."""
    if not feed.lake.exists(spark, MESSAGES_TABLE):
        return []
    wanted: Sequence[str] = columns or ("file", "line", "value")
    rows = feed.lake.read(spark, MESSAGES_TABLE).where(f"source = '{feed.name}'").orderBy("file", "line").select(*wanted).collect()
    return [tuple(bytes(value) if isinstance(value, bytearray) else value for value in row) for row in rows]
