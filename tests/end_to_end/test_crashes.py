"""A run is killed, and repeated: the same tables as without, no row doubled in silver, bronze exact.

    MAINSTEM_CHAOS=20 MAINSTEM_SEED=7 python -m pytest tests/end_to_end/test_crashes.py -s

Two of the named crash points are drawn by the seed; with MAINSTEM_CHAOS all are taken, and as many random
moments as it says. The seed is printed, and how often each point was hit.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random

import pytest
from pyspark.sql import SparkSession

from framework.cli import main
from framework.config.model import load_config
from framework.lakehouse.lakehouse import Lakehouse
from framework.pipeline.fault_injection import VARIABLE
from silver.layer import LAYER as SILVER
from tests.processes import ended, kill_tree

ROOT = Path(__file__).parents[2]
SEED = os.environ.get("MAINSTEM_SEED") or "20240301"
CHAOS = int(os.environ.get("MAINSTEM_CHAOS") or 0)
CONFIG = """pipeline: crashes
lakehouse: ./lakehouse
sources:
  shop: {format: datahub_blob, files: ./landing/shop, pairing_timeout: 10 minutes}
tables:
  - {match: shop.orders, history: true, columns: {total: {type: "decimal(12,2)"}}}
  - {match: shop.customer, columns: {city: {type: int}}}
"""
HOLDER = """
import sys
from framework.lakehouse.lease import hold_lease
from framework.lakehouse.lakehouse import Lakehouse
with hold_lease(Lakehouse(sys.argv[1]), "crashes"):
    print("held", flush=True)
    sys.stdin.read()
"""


def points() -> list[str]:
    """The named crash points, out of the code."""
    files = [
        file for layer in ("framework", "bronze", "silver", "gold") for file in (ROOT / layer).rglob("*.py")
    ]
    return sorted(
        {
            name
            for file in files
            for name in re.findall(r'crash_point\("([^"]+)"\)', file.read_text(encoding="utf-8"))
        }
    )


# Passed where an epoch is raised, a table's messages are decoded again, a dump lands, a row is forgotten:
# `test_rare_crashes.py`
# kills there.
RARE = {
    "bronze.after_seed",
    "bronze.before_seed",
    "forget.after_note",
    "forget.between_layers",
    "silver.after_again",
    "silver.after_begun",
    "silver.before_again",
    "silver.before_resumed",
    "silver.before_taken",
    "silver.between_derived_again",
}
POINTS = [point for point in points() if point not in RARE]
TAKEN = POINTS if CHAOS else Random(SEED).sample(POINTS, 2)
HITS: Counter[str] = Counter()


class Place:
    """A pipeline in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.config = folder, folder / "mainstem.yml"

    @property
    def lake(self) -> Lakehouse:
        return Lakehouse(load_config(self.config, formats=SILVER.options()).root)

    def land(self, part: int) -> None:
        target = self.folder / "landing" / "shop"
        target.mkdir(parents=True, exist_ok=True)
        for file in sorted((ROOT / "framework/demo/parts" / str(part) / "shop").iterdir()):
            shutil.copyfile(file, target / f".{file.name}")
            (target / f".{file.name}").rename(target / file.name)

    def run(self) -> int:
        return main(["run", "--through", "gold", "-c", str(self.config)])

    def start(self, crash_at: str | None) -> subprocess.Popen[bytes]:
        environment = {**os.environ, "PYTHONPATH": str(ROOT), VARIABLE: crash_at or ""}
        command = [sys.executable, "-m", "framework.cli", "run", "--through", "gold", "-c", str(self.config)]
        with (self.folder / "run.log").open("wb") as log:
            return subprocess.Popen(command, cwd=ROOT, env=environment, stdout=log, stderr=log)

    def copy(self, name: str) -> Place:
        folder = self.folder.parent / name.replace(":", "-")
        shutil.copytree(self.folder, folder)
        return Place(folder)

    def contents(self, spark: SparkSession) -> dict[str, Counter[str]]:
        """The rows of each table that a user sees, but for batch numbers and times of our own clock."""
        found = {}
        for log in sorted(Path(self.lake.root).rglob("_delta_log")):
            name = str(log.parent.relative_to(self.lake.root))
            if name.startswith("ops/") and name != "ops/bad_values":
                continue
            frame = spark.read.format("delta").load(str(log.parent))
            frame = frame.drop(
                "batch", "ingested_at", "first_seen_at", "last_seen_at", "run_id", "revision", "recorded_at"
            )
            found[name] = Counter(repr(row) for row in frame.toArrow().to_pylist())
        return found


@pytest.fixture(scope="module")
def before(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """A pipeline that has run once, with new messages landed: every crash begins here."""
    print(f"\nMAINSTEM_SEED={SEED}" + (f" MAINSTEM_CHAOS={CHAOS}" if CHAOS else "") + f": {TAKEN}")
    place = Place(tmp_path_factory.mktemp("crashes") / "before")
    place.folder.mkdir()
    place.config.write_text(CONFIG, encoding="utf-8")
    place.land(1)
    assert place.run() == 0
    place.land(2)
    yield place
    for point in POINTS:
        print(f"{HITS[point]:>4} × {point}")
    print(f"{HITS['random']:>4} × at a random moment")


@dataclass(frozen=True)
class RefusedRun:
    """What a run said and changed while another held the lease, and its exit code."""

    holder: int
    code: int
    said: str
    changed: set[str]


@pytest.fixture(scope="module")
def undisturbed(before: Place) -> tuple[Place, RefusedRun]:
    """A pipeline whose run was refused at first, for another process held the lease until it was killed."""
    place = before.copy("undisturbed")
    root = Path(place.lake.root)
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(root)], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == b"held\n"
    files = {file: file.stat().st_mtime_ns for file in root.rglob("*") if file.is_file()}
    said = io.StringIO()
    with contextlib.redirect_stderr(said):
        code = place.run()
    now = {file: file.stat().st_mtime_ns for file in root.rglob("*") if file.is_file()}
    holder.kill()
    holder.communicate()
    assert place.run() == 0
    return place, RefusedRun(
        holder.pid,
        code,
        said.getvalue(),
        {file.name for file in files.keys() | now.keys() if files.get(file) != now.get(file)},
    )


@pytest.fixture(scope="module")
def expected(spark: SparkSession, undisturbed: tuple[Place, RefusedRun]) -> dict[str, Counter[str]]:
    """What the run leads to when it is not killed."""
    found = undisturbed[0].contents(spark)
    assert {
        "bronze/messages",
        "silver/changes",
        "gold/shop/orders",
        "gold/shop/orders__history",
        "ops/bad_values",
    } <= found.keys()
    return found


def compare(found: dict[str, Counter[str]], expected: dict[str, Counter[str]]) -> None:
    for name in sorted(found.keys() | expected.keys()):
        one, other = found.get(name, Counter()), expected.get(name, Counter())
        assert one == other, (
            f"{name}: too much {list((one - other).items())[:3]}, missing {list((other - one).items())[:3]}"
        )


@pytest.mark.long
@pytest.mark.parametrize("point", TAKEN)
def test_a_run_that_died_at_a_named_point_is_repeated_as_if_it_had_not(
    spark: SparkSession, before: Place, expected: dict[str, Counter[str]], point: str
) -> None:
    place = before.copy(f"at {point}")
    assert ended(place.start(point)) == -signal.SIGKILL, (place.folder / "run.log").read_text()
    HITS[point] += 1
    assert place.run() == 0
    compare(place.contents(spark), expected)


@pytest.mark.skipif(not CHAOS, reason="random moments are for make chaos")
@pytest.mark.parametrize("number", range(max(1, CHAOS)))
def test_a_run_that_died_anywhere_is_repeated_as_if_it_had_not(
    spark: SparkSession, before: Place, expected: dict[str, Counter[str]], number: int
) -> None:
    draw = Random(f"{SEED} {number}")
    place = before.copy(f"random {number}")
    for _ in range(draw.choice((1, 1, 2))):
        if draw.random() < 0.5:
            point = f"{draw.choice(POINTS)}:{draw.choice((1, 1, 2, 3))}"
            if ended(place.start(point)) == -signal.SIGKILL:
                HITS[point.partition(":")[0]] += 1
        else:
            process = place.start(None)
            time.sleep(draw.uniform(2, 40))
            HITS["random"] += process.poll() is None
            kill_tree(process)
    assert place.run() == 0
    compare(place.contents(spark), expected)


@pytest.mark.long
def test_a_second_run_leaves_and_a_killed_holder_is_no_hindrance(
    undisturbed: tuple[Place, RefusedRun],
) -> None:
    _, refused = undisturbed
    assert refused.code == 1
    assert "LEASE_HELD" in refused.said
    assert f"process {refused.holder}" in refused.said
    assert refused.changed <= {"crashes.lease"}


def test_the_points_are_those_that_the_layers_pass() -> None:
    assert set(points()) > RARE
    assert {point.partition(".")[0] for point in POINTS} == {"bronze", "silver", "gold"}
    assert len(POINTS) > 10
