"""Feeds of any size for the benchmarks: rows of ten columns, as messages in bronze or changes in silver."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from framework.config.model import Config, load_config
from framework.contracts.table_names import CHANGES_TABLE, SCHEMAS_TABLE
from framework.contracts.table_schemas import CHANGES, MESSAGES, SCHEMAS
from framework.lakehouse.lakehouse import Lakehouse
from silver.batches import batch_counts, changes_table
from silver.layer import LAYER as SILVER
from tests.end_to_end.random_wires import blob
from tests.framework.demo.story import Change, Table
from tests.framework.demo.wires import WIRES, Wire

TYPES = {
    "id": "bigint",
    "n": "bigint",
    "amount": "double",
    "at": "timestamp_ntz",
    **{f"s{i}": "string" for i in range(6)},
}
SIX = ("canal", "oms_canal", "oms_default", "oms_default_extend", "oms_dataworks", "oms_shareplex")
_WRITERS: dict[str, Wire] = {**dict(WIRES.values()), "datahub_blob": blob}
_START = 1_700_000_000_000


def config(folder: Path, formats: Iterable[str]) -> Config:
    """A pipeline with a source for each of these formats."""
    folder.mkdir(parents=True)
    sources = "".join(f"  {name}: {{format: {name}, files: ./landing/{name}}}\n" for name in formats)
    for name in formats:
        (folder / "landing" / name).mkdir(parents=True)
    rules = "tables:\n  - {match: '*.*', keys: [id]}\n"
    (folder / "mainstem.yml").write_text(
        f"pipeline: bench\nlakehouse: ./lakehouse\nsources:\n{sources}{rules}"
    )
    return load_config(folder / "mainstem.yml", formats=SILVER.options())


def changes(count: int, first: int, op: str = "update", tables: int = 1) -> Iterator[Change]:
    """`count` changes with different keys, to the tables in turn.

    `first` separates the feeds of several rounds.
    """
    shops = [Table("bench", "shop", f"item_{n}" if n else "item", ("id",), TYPES) for n in range(tables)]
    for number in range(first, first + count):
        before, after = _row(number, "before"), _row(number, "after")
        yield Change(
            shops[number % tables],
            op,
            None if op == "insert" else before,
            after,
            TYPES,
            number + 1,
            _START + number * 1000,
            1,
        )


def _row(number: int, word: str) -> dict[str, str | None]:
    texts: dict[str, str | None] = {f"s{i}": f"{word} of column {i} in row {number}" for i in range(6)}
    return {
        "id": str(number),
        "n": str(number * 7),
        "amount": f"{number}.25",
        "at": "2024-02-29T10:00:00",
        **texts,
    }


def bronze(
    spark: SparkSession, file: Path, feeds: Iterable[tuple[str, Iterable[Change]]], bad: float = 0.0
) -> DataFrame:
    """Rows of `bronze/messages` with these changes, format by format.

    The share `bad` of them cannot be read.
    """
    columns: dict[str, list[object]] = {
        name: [] for name in ("source", "topic", "partition", "offset", "value")
    }
    for name, changes in feeds:
        lines = [line for change in changes for line in _WRITERS[name](change)]
        every = round(1 / bad) if bad else len(lines) + 1
        for offset, line in enumerate(lines):
            value = b"no message" if offset % every == every - 1 else line.encode()
            for column, cell in zip(columns.values(), (name, f"{file.stem}", 0, offset, value), strict=True):
                column.append(cell)
    types = [pa.string(), pa.string(), pa.int32(), pa.int64(), pa.binary()]
    table = pa.table({n: pa.array(c, t) for (n, c), t in zip(columns.items(), types, strict=True)})
    parts = file.with_suffix(".parts")
    parts.mkdir()
    for number, start in enumerate(
        range(0, table.num_rows, table.num_rows // 2)
    ):  # neighbours stay neighbours
        pq.write_table(table.slice(start, table.num_rows // 2), parts / f"{number}.parquet")
    rows = spark.read.parquet(str(parts))
    have = set(columns)
    given = {"ingested_at": F.lit("2026-01-01").cast("timestamp")}
    frame = rows.select(
        *(
            F.col(f.name) if f.name in have else given.get(f.name, F.lit(None)).cast(f.dataType).alias(f.name)
            for f in MESSAGES
        )
    )
    # a stream gives its batches as files that it has listed already
    place = str(file.with_suffix(".rows"))
    frame.write.parquet(place)
    return spark.read.schema(MESSAGES).parquet(place)


def types(extra: int) -> dict[str, str]:
    """The columns of a table with so many columns of text more than others have."""
    return {**TYPES, **{f"e{i}": "string" for i in range(extra)}}


def silver(lake: Lakehouse, rows: DataFrame, batch: int, tables: Mapping[str, int]) -> None:
    """Publishes a batch of changes to each table as silver would, from rows of `id` and `version`.

    The whole row is the after image.

    `tables` says how many columns each has beyond those that all have: no two tables of a database are alike.
    """
    spark = rows.sparkSession
    rows = rows.crossJoin(
        F.broadcast(spark.createDataFrame(list(tables.items()), "`table` string, extra int"))
    )
    if not lake.exists(spark, SCHEMAS_TABLE):
        schemas = [
            (f"s{n}", [(name, kind, kind, None) for name, kind in types(n).items()], 0)
            for n in set(tables.values())
        ]
        lake.append(spark.createDataFrame(schemas, SCHEMAS), SCHEMAS_TABLE)
    position = F.col("version").cast("string")
    names = F.filter(
        F.transform(F.sequence(F.lit(0), "extra"), lambda i: F.concat(F.lit("e"), i)),
        lambda n, i: i < F.col("extra"),
    )
    more = F.map_from_arrays(names, F.transform(names, lambda name: F.concat(name, F.lit(" at "), "version")))
    given = {
        "change_id": F.concat_ws("/", "table", "id", "version"),
        "source": F.lit("datahub_blob"),
        "format": F.lit("datahub_blob"),
        "batch": F.lit(batch),
        "kind": F.lit("row"),
        "op": F.lit("insert" if batch == 0 else "update"),
        "database": F.lit("shop"),
        "table": F.col("table"),
        "sequence": F.concat(F.lit("011.011."), F.lpad(F.length(position), 2, "0"), position),
        "event_time": F.lit("2024-03-01").cast("timestamp"),
        "topic": F.lit("t"),
        "partition": F.lit(0),
        "offset": F.col("id"),
        "ordinal": F.lit(0),
        "keys": F.array(F.lit("id")),
        "after": F.map_concat(
            F.create_map(*(part for n, cell in cells().items() for part in (F.lit(n), cell.cast("string")))),
            more,
        ),
        "partial": F.lit(False),
        "schema_id": F.concat(F.lit("s"), "extra"),
    }
    blank = F.lit(None)
    frame = rows.select(*(given.get(f.name, blank).cast(f.dataType).alias(f.name) for f in CHANGES))
    lake.append(frame, CHANGES_TABLE, None, changes_table.CHANGES_PROPERTIES)
    mine = lake.read(spark, CHANGES_TABLE).where(F.col("batch") == batch)
    batch_counts.append_counts(lake, spark, batch_counts.count_rows(mine, None), None, None)


def cells(extra: int = 0) -> dict[str, Column]:
    """The columns of a row, from `id` and `version`; gold's typed values are equal to these."""
    texts = {f"s{i}": F.concat(F.lit(f"value {i} of "), "id", F.lit(" at "), "version") for i in range(6)}
    stamp = F.lit("2024-02-29T10:00:00")
    more = {f"e{i}": F.concat(F.lit(f"e{i} at "), "version") for i in range(extra)}
    return {
        "id": F.col("id"),
        "n": F.col("version"),
        "amount": F.concat("id", F.lit(".25")),
        "at": stamp,
        **texts,
        **more,
    }
