"""Few messages that are decoded again in this process have the outcomes that Spark gives them."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path
from random import Random

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from framework.config.model import Config, load_config
from framework.contracts.table_names import (
    BATCHES_TABLE,
    CHANGES_TABLE,
    PENDING_TABLE,
    QUARANTINE_TABLE,
    SCHEMAS_TABLE,
    STATEMENTS_TABLE,
)
from framework.lakehouse import recent_rows
from framework.lakehouse.lakehouse import Lakehouse
from framework.pipeline.layer import Run, installed_layers
from framework.spark.session import is_connect
from silver.batches import batch_counts
from silver.job import rebuild_silver
from silver.layer import LAYER as SILVER
from silver.operations import few_redecode, redecode
from tests.end_to_end.random_wires import blob, canal, maxwell
from tests.framework.demo.story import Change, Event, Marker, Table

TYPES = {"id": "bigint", "n": "bigint", "s": "string"}
ITEM, NOTE = (Table("bench", "shop", name, ("id",), TYPES) for name in ("item", "note"))
WIRES = {"datahub_blob": blob, "canal": canal, "maxwell": maxwell}
RULE = "quality:\n  rules:\n    - {match: '*.item', range: {column: n, max: 1}, on_change: quarantine}\n"
OTHERS = "tables:\n  - {match: shop.note, exclude: true}\n"
_VOLATILE = ("last_seen_at", "max_ingested_at")
_READ = (CHANGES_TABLE, QUARANTINE_TABLE, PENDING_TABLE, STATEMENTS_TABLE, SCHEMAS_TABLE)


def configured(folder: Path, wire: str, more: str = "") -> Config:
    source = f"  feed: {{format: {wire}, files: ./landing}}\n"
    text = f"pipeline: bench\nlakehouse: ./lakehouse\nsources:\n{source}{more}"
    (folder / "mainstem.yml").write_text(text, encoding="utf-8")
    return load_config(folder / "mainstem.yml", formats=SILVER.options())


def drawn_events(draw: Random, first: int) -> Iterator[Event]:
    """Changes of two tables with few keys, some of which share a time, and a statement."""
    for number in range(first, first + 12):
        table, op = draw.choice((ITEM, ITEM, NOTE)), draw.choice(("insert", "update", "update", "delete"))
        before, after = (
            {"id": str(draw.randint(1, 3)), "n": str(draw.randint(0, 5)), "s": draw.choice(("a", None))}
            for _ in range(2)
        )
        at = 1_700_000_000_000 + 1_000 * (number // 2)
        images = (None if op == "insert" else before, None if op == "delete" else after)
        yield Change(table, op, *images, TYPES, number + 1, at, 1)
    text = "ALTER TABLE item ADD COLUMN added int"
    yield Marker("ddl", "bench", ITEM, text, first + 14, 1_700_000_000_000 + 1_000 * (first + 7), 1)


def drawn_lines(draw: Random, wire: Callable[[Event], list[str]], first: int) -> Iterator[str]:
    """Messages: some lost, sent once more, late or broken."""
    events = drawn_events(draw, first)
    lines = [
        line for event in events if wire is not maxwell or isinstance(event, Change) for line in wire(event)
    ]
    lines = [line for line in lines if draw.random() > 0.1]
    lines += draw.sample(lines, 3)
    for place in draw.sample(range(len(lines)), 3):
        lines.insert(draw.randrange(len(lines)), lines.pop(place))
    yield from (line if draw.random() > 0.05 else line[:-2] for line in lines)


def held(spark: SparkSession, lake: Lakehouse) -> Mapping[str, Counter[str]]:
    """All rows of silver's tables but their times of writing, and the counts of each batch."""
    frames = {name: lake.read(spark, name) for name in _READ if lake.exists(spark, name)}
    counts = lake.read(spark, BATCHES_TABLE).groupBy(*batch_counts.COUNTED_BY)
    sums = [F.sum(name).alias(name) for name in batch_counts.SUMS]
    ends = [F.min("min_sequence"), F.max("max_sequence"), F.max("max_event_time")]
    frames[BATCHES_TABLE] = counts.agg(*sums, *ends).where("rows <> 0")
    return {name: counted(frame) for name, frame in frames.items()}


def counted(frame: DataFrame) -> Counter[str]:
    names = [name for name in sorted(frame.columns) if name not in _VOLATILE]
    return Counter(map(str, frame.select(*(F.col(f"`{name}`") for name in names)).collect()))


@contextmanager
def in_spark() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(recent_rows, "_SMALL", (-1, -1))
        yield


@pytest.mark.slow
@pytest.mark.parametrize("wire", list(WIRES))
def test_the_tables_are_those_that_spark_makes(
    spark: SparkSession, tmp_path: Path, wire: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if is_connect(spark):
        pytest.skip("a client of Spark Connect has no JVM")
    draw, here, by_spark = Random(wire), tmp_path / "here", tmp_path / "by_spark"
    (here / "landing").mkdir(parents=True)
    bronze, silver = list(installed_layers())[:2]
    for number in range(2):
        lines = drawn_lines(draw, WIRES[wire], number * 20)
        (here / "landing" / f"{number}.json").write_text("\n".join(lines), encoding="utf-8")
        config = configured(here, wire, OTHERS if not number else "")
        run = Run(spark, Lakehouse(config.root), config, f"run-{number}")
        assert not bronze.run(run).errors + silver.run(run).errors
    shutil.copytree(here, by_spark)
    few: list[bool] = []
    monkeypatch.setattr(redecode, "read_few", lambda *args: noted(few, few_redecode.read_few(*args)))
    for table, more in (("shop.note", ""), ("shop.item", RULE), ("shop.item", "")):
        tables: list[Mapping[str, Counter[str]]] = []
        for folder, way in ((here, nullcontext()), (by_spark, in_spark())):
            config = configured(folder, wire, more)
            lake = Lakehouse(config.root)
            with way:
                assert rebuild_silver(spark, lake, config, table).messages
            tables.append(held(spark, lake))
        assert few == [True, False], table
        few.clear()
        assert tables[0] == tables[1], (table, more)
    kinds = {row["kind"] for row in Lakehouse(config.root).read(spark, CHANGES_TABLE).collect()}
    assert kinds >= {"row", "duplicate", "quarantined"}


def noted(few: list[bool], found: few_redecode.FewMessages | None) -> few_redecode.FewMessages | None:
    few.append(found is not None)
    return found
