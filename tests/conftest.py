"""Fixtures that every part of the tests may use."""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest
from pyspark.sql import SparkSession

from framework.spark.session import is_connect, local_settings, start_local, stop_session

# A busy machine is slow, not wrong.
hypothesis.settings.register_profile("mainstem", deadline=None)
hypothesis.settings.load_profile("mainstem")

_TESTS = Path(__file__).parent
_ROOMS = ("end_to_end", "gold", "silver", "bronze", "framework")
"""Folders of tests, those that take longest first."""

# For work as small as that of tests the JVM's best compiler costs more than it saves, and so does a collector
# of garbage that works beside the tests: there is no core for it.
os.environ.setdefault("MAINSTEM_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Tests against real servers are there for `-m real` alone: they need what the others do not."""
    is_real = collection_path == _TESTS / "real"
    return True if is_real and "real" not in str(config.getoption("-m")) else None


def pytest_configure() -> None:
    """What is imported and collected stays: to look for garbage in it takes time each time."""
    gc.disable()


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark the tests that use Spark, and put their files first, those of whole pipelines before all others.

    They take longest: near the end they would leave workers without work, which short files do not.
    Where the time of slow tests is limited, another room comes first each day: none is always left out.
    """
    if unstable := [item.nodeid for item in items if " at 0x" in item.nodeid]:
        raise pytest.UsageError(f"names with an address, which differs between workers: {unstable}")
    until = 0 if "not slow" in str(config.getoption("-m")) else os.environ.get("MAINSTEM_SLOW_UNTIL") or 0
    first = int(float(until)) // 86_400 % len(_ROOMS)
    order = (*_ROOMS[first:], *_ROOMS[:first])
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.spark)
    with_spark = {item.path for item in items if item.get_closest_marker("spark")}

    def turn(path: Path) -> tuple[bool, int]:
        rooms = [n for n, room in enumerate(order) if path.is_relative_to(_TESTS / room)]
        return path not in with_spark, *(rooms or [len(order)])

    turns = {path: turn(path) for path in {item.path for item in items}}
    items.sort(key=lambda item: turns[item.path])


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Leave out slow tests when the time is up that CI has for them (`MAINSTEM_SLOW_UNTIL`)."""
    until = os.environ.get("MAINSTEM_SLOW_UNTIL")
    if until and time.time() > float(until) and item.get_closest_marker("slow"):
        pytest.skip(f"the time for slow tests is up, before {item.nodeid}: run `make test-slow`")


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """One local session with settings for small."""
    settings = local_settings("tests", cores=2) | {
        "spark.sql.shuffle.partitions": "2",
        "spark.default.parallelism": "2",
    }
    session = start_local(settings)
    yield session
    stop_session(session)


@pytest.fixture
def one_disk(spark: SparkSession) -> None:
    """Tasks and this process see the same folders: else Spark alone reads and writes files."""
    if is_connect(spark):
        pytest.skip("on Spark Connect only Spark reads and writes files")
