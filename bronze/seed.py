"""Landing a dump: each row is a message, its header says of which table and position, and all of them are one commit."""

from __future__ import annotations

import json
import shutil
import uuid
from collections.abc import Sequence
from dataclasses import replace

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from bronze.checkpoint import PROPERTIES, TABLE_ID
from bronze.dump import Dump, read_dump
from bronze.source import MESSAGES_TABLE
from framework.contracts.seed import NOTE, SEED, TOPIC, Seed, header_text
from framework.contracts.tables import HEADERS, MESSAGES
from framework.crash import crash_point
from framework.errors import ConfigurationError, MainstemError, cause_of, suggested
from framework.layer import LayerReport, Placed, Run
from framework.names import dotted_name, quoted
from framework.notes import write_note
from framework.tables import Transaction

_FEW, _PARTITIONS = 100_000, 64


def seed(run: Run, placed: Placed, path: str) -> LayerReport:
    """Land the rows of a dump once: a dump that landed for this table and position before changes nothing.

    Raises MainstemError where the dump cannot be read, has no rows, lacks a key column or has two rows of one key.
    """
    staging = f"{run.lake.checkpoints}/staging/seed"
    dump = _staged(run, read_dump(run.spark, path), placed.seed, staging, path)
    _check_keys(dump, placed.seed, path)
    rows, digest = dump.rows.agg(F.count("*"), F.sum(F.xxhash64("value").cast("decimal(38,0)"))).first() or (0, 0)
    if not rows:
        raise MainstemError(
            "DUMP_EMPTY", found="no row", where=path, action="name a dump that has rows, and the line with the column names"
        )
    told = replace(placed.seed, columns=dump.columns)
    identity = f"{rows}-{uuid.uuid5(uuid.NAMESPACE_OID, f'{header_text(told)!r} {rows} {digest}').hex[:16]}"
    run.lake.create(run.spark, MESSAGES_TABLE, MESSAGES, {**PROPERTIES, TABLE_ID: uuid.uuid4().hex})
    write_note(run.spark, f"{run.lake.checkpoints}/{NOTE}", json.dumps({"by": SEED}))
    crash_point("bronze.before_seed")
    before = run.lake.version(run.spark, MESSAGES_TABLE) or 0
    # of two dumps at one position the earlier one counts: their topics sort as they landed
    messages = _messages(dump.rows, told, f"{before:012d}-{identity}", rows, path)
    run.lake.append(messages, MESSAGES_TABLE, Transaction(f"{run.config.pipeline}/seed/{identity}", 1))
    is_new = run.lake.version(run.spark, MESSAGES_TABLE) != before
    crash_point("bronze.after_seed")
    if run.lake.local_root is not None:
        shutil.rmtree(staging, ignore_errors=True)
    notes = [*placed.notes, *_column_notes(dump.columns, placed.columns)]
    if not is_new:
        notes = ["this dump has landed for this table and position before: nothing is landed again"]
    return LayerReport("bronze", {"seeded": rows if is_new else 0}, notes=tuple(f"seed: {note}" for note in notes))


def _staged(run: Run, dump: Dump, seed: Seed, staging: str, path: str) -> Dump:
    """The rows as they are now, whatever becomes of the dump: the texts of the key, and all cells as one JSON object."""
    missing = [name for name in seed.key if name not in dump.columns]
    if missing:
        raise ConfigurationError(
            "KEY_COLUMN_MISSING",
            found=f"the dump has no column {missing[0]!r}, which is of the key",
            where=path,
            action=suggested(missing[0], dump.columns),
        )
    cells = F.to_json(F.struct(*(F.col(quoted(name)) for name in dump.columns)), {"ignoreNullFields": "false"})
    keys = [F.col(quoted(name)).alias(key) for key, name in zip(_keys(seed), seed.key, strict=True)]
    try:
        dump.rows.select(*keys, cells.cast("binary").alias("value")).write.mode("overwrite").parquet(staging)
    except Exception as error:  # a file that somebody gave may be broken in any way, and at any row
        raise MainstemError("DUMP_UNREADABLE", found=cause_of(error), where=path, action="mend the dump; nothing has landed") from error
    schema = ", ".join([*(f"{key} string" for key in _keys(seed)), "value binary"])
    return Dump(run.spark.read.schema(schema).parquet(staging), dump.columns)


def _check_keys(dump: Dump, seed: Seed, path: str) -> None:
    """Refuse a dump in which two rows have one key: nobody could say which of them stood there."""
    keys = _keys(seed)
    twice = dump.rows.groupBy(*keys).count().where("count > 1").orderBy(*keys).first()
    if twice is not None:
        row = " ".join(f"{name}={twice[key]}" for key, name in zip(keys, seed.key, strict=True))
        action = "dump the table again, or write its real key under `tables:`; nothing has landed"
        raise MainstemError("KEY_TWICE", found=f"{twice['count']:,} rows with {row}", where=path, action=action)


def _keys(seed: Seed) -> Sequence[str]:
    return [f"k{i}" for i in range(len(seed.key))]


def _messages(rows: DataFrame, seed: Seed, name: str, count: int, path: str) -> DataFrame:
    """The rows as messages of a topic that ends in `name`, in the order of their keys."""
    table = dotted_name(seed.database, seed.schema, seed.table)
    parts = _PARTITIONS if count > _FEW else 1
    numbered = rows.withColumn("partition", F.pmod(F.xxhash64(*_keys(seed)), F.lit(parts)).cast("int"))
    numbered = numbered.withColumn("offset", F.row_number().over(Window.partitionBy("partition").orderBy(*_keys(seed))).cast("long"))
    header = F.struct(F.lit(SEED).alias("key"), F.lit(header_text(seed)).alias("value"))
    filled = {
        "source": F.lit(seed.source),
        "topic": F.lit(f"{TOPIC}{table}/{name}"),
        "headers": F.array(header).cast(HEADERS),
        "file": F.lit(path),
        "ingested_at": F.current_timestamp(),
    }
    have = {"partition", "offset", "value"}
    return numbered.select(
        *(
            F.col(f"`{f.name}`") if f.name in have else filled.get(f.name, F.lit(None)).cast(f.dataType).alias(f.name)
            for f in MESSAGES.fields
        )
    )


def _column_notes(own: Sequence[str] | dict[str, str | None], fed: Sequence[str]) -> list[str]:
    """Where dump and feed differ in their columns."""
    if not fed:
        return []
    more, less = [name for name in own if name not in fed], [name for name in fed if name not in own]
    notes = [f"the feed has not shown these columns of the dump: {', '.join(more)}"] if more else []
    return [*notes, f"the dump lacks these columns of the feed, which are null in its rows: {', '.join(less)}"] if less else notes
