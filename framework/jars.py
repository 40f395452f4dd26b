"""Delta's and Kafka's JVM artifacts: resolved once by Spark's Ivy, then named by path, which saves a second a start."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

SCALA = "2.13"


def cache_folder() -> Path:
    """Where Mainstem keeps what it can find again: MAINSTEM_CACHE, else `~/.cache/mainstem`."""
    chosen = os.environ.get("MAINSTEM_CACHE")
    return Path(chosen) if chosen else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "mainstem"


def packages(*, kafka: bool) -> tuple[str, ...]:
    """The coordinates of the artifacts that a session needs, in step with the installed Python packages."""
    spark = version("pyspark")
    line = ".".join(spark.split(".")[:2])
    names = [f"io.delta:delta-spark_{line}_{SCALA}:{version('delta-spark')}"]
    if kafka:
        names.append(f"org.apache.spark:spark-sql-kafka-0-10_{SCALA}:{spark}")
    return tuple(names)


def known_jars(coordinates: Sequence[str]) -> tuple[str, ...] | None:
    """The local jars that these artifacts were resolved to earlier, None unless every one is still there."""
    try:
        jars = json.loads(_index().read_text())[_key(coordinates)]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    if not isinstance(jars, list) or not jars or not all(isinstance(jar, str) and os.path.isfile(jar) for jar in jars):
        return None
    return tuple(jars)


def remember_jars(coordinates: Sequence[str], jars: Sequence[str]) -> None:
    """Note what the artifacts were resolved to; a cache that cannot be written is no error."""
    index = _index()
    try:
        index.parent.mkdir(parents=True, exist_ok=True)
        content = _content(index) | {_key(coordinates): list(jars)}
        with tempfile.NamedTemporaryFile("w", dir=index.parent, delete=False, suffix=".part") as part:
            json.dump(content, part, indent=1)
        os.replace(part.name, index)
    except OSError:
        return


def _content(index: Path) -> dict[str, object]:
    try:
        content = json.loads(index.read_text())
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def _index() -> Path:
    return cache_folder() / "jars.json"


def _key(coordinates: Sequence[str]) -> str:
    return " ".join(sorted(coordinates))
