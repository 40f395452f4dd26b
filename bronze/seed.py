"""Lands a dump in one commit: each row is a message whose header names the table and the position."""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from bronze.checkpoint import create_messages
from bronze.dump_limits import check_dump
from bronze.dump_reader import Dump, read_dump
from framework.contracts.seed import NOTE, SEED, TOPIC, Seed, header_text
from framework.contracts.table_names import MESSAGES_TABLE
from framework.contracts.table_schemas import HEADERS, MESSAGES
from framework.errors import ConfigurationError, MainstemError, cause_of, suggested
from framework.lakehouse.lakehouse import Transaction
from framework.lakehouse.parquet_files import read_parquet
from framework.lakehouse.small_files import write_note
from framework.lakehouse.staging import discard_staging, staging_folder
from framework.naming import dotted_name, in_one_case, quoted
from framework.pipeline.fault_injection import crash_point
from framework.pipeline.layer import LayerReport, ResolvedSeed, Run
from framework.spark.tuning import tune_for_rows
from framework.text.formatting import one_line, quantity

_ONE_PARTITION_ROWS, _PARTITIONS = 100_000, 64
_STAGING = "seed"
_OTHER_SEPARATORS = (";", "\t", "|")
_NUMBER = re.compile(r"-?[0-9.]+", re.ASCII)
_SHOWN = 80


def seed(run: Run, resolved: ResolvedSeed, path: str) -> LayerReport:
    """Lands the rows of a dump; a dump that has landed for this table and position before changes nothing.

    Raises:
        MainstemError: DUMP_UNREADABLE, DUMP_TOO_LARGE, DUMP_EMPTY, KEY_TWICE, or KEY_COLUMN_MISSING (a
            ConfigurationError).
    """
    staging = staging_folder(run.lake, _STAGING)
    check_dump(path, run.config.sources[resolved.seed.source])
    found = read_dump(run.spark, path)
    check_columns(found.columns, resolved, path)
    dump = _stage(run, found, resolved.seed, staging, path)
    digests = F.sum(F.xxhash64("value").cast("decimal(38,0)"))
    nulls = [F.count_if(F.col(key).isNull()) for key in _key_columns(resolved.seed)]
    rows, digest, *without = dump.rows.agg(F.count("*"), digests, *nulls).first() or (0, 0)
    if not rows:
        raise MainstemError(
            "DUMP_EMPTY",
            found="no row",
            where=path,
            action="name a dump that has rows; a CSV file begins with a line of column names",
        )
    tune_for_rows(run.spark, rows)
    _check_keys(dump, resolved.seed, path)
    typed_seed = replace(resolved.seed, columns=dump.columns)
    identity = (
        f"{rows}-{uuid.uuid5(uuid.NAMESPACE_OID, f'{header_text(typed_seed)!r} {rows} {digest}').hex[:16]}"
    )
    create_messages(run.spark, run.lake, run.config.pipeline)
    write_note(run.spark, f"{run.lake.checkpoints}/{NOTE}", json.dumps({"by": SEED}))
    crash_point("bronze.before_seed")
    before = run.lake.version(run.spark, MESSAGES_TABLE) or 0
    # of two dumps at one position the first one counts, so their topics must sort in the order of landing
    messages = _messages(dump.rows, typed_seed, f"{before:012d}-{identity}", rows, path)
    run.lake.append(messages, MESSAGES_TABLE, Transaction(f"{run.config.pipeline}/seed/{identity}", 1))
    is_new = run.lake.version(run.spark, MESSAGES_TABLE) != before
    crash_point("bronze.after_seed")
    discard_staging(run.lake, _STAGING)
    notes = [*resolved.notes, *_column_notes(dump.columns, resolved.columns)]
    notes += [
        f"{quantity(count, 'row has', 'rows have')} no value in {name!r}, a column of the key"
        " (in a CSV file an empty cell is null)"
        for name, count in zip(resolved.seed.key, without, strict=False)
        if count
    ]
    if not is_new:
        notes = ["this dump has landed for this table and position before; nothing was landed again"]
    return LayerReport(
        "bronze", {"seeded": rows if is_new else 0}, notes=tuple(f"seed: {note}" for note in notes)
    )


def check_columns(columns: Mapping[str, str | None], resolved: ResolvedSeed, path: str) -> None:
    """Passes a dump that has the columns of the key; `columns` have no type where the dump is CSV.

    Raises:
        ConfigurationError: KEY_COLUMN_MISSING.
    """
    missing = next((name for name in resolved.seed.key if name not in columns), None)
    if missing is None:
        return
    names = list(columns)
    is_csv = all(kind is None for kind in columns.values())
    other = next((mark for mark in _OTHER_SEPARATORS if mark in names[0]), None) if len(names) == 1 else None
    known = {in_one_case(name) for name in resolved.columns}
    is_of_values = known.isdisjoint(map(in_one_case, names)) if known else any(map(_NUMBER.fullmatch, names))
    found, action = f"the dump has no column {missing!r}, which is part of the key", suggested(missing, names)
    if is_csv and other is not None:
        found += f": its first line has {other!r} where a CSV file has commas"
        action = "export the table again with commas between the cells; nothing has landed"
    elif is_csv and is_of_values:
        found += f": its first line is {one_line(','.join(names), _SHOWN)!r}"
        action = "begin the file with a line of the column names, if it has none; nothing has landed"
    raise ConfigurationError("KEY_COLUMN_MISSING", found=found, where=path, action=action)


def _stage(run: Run, dump: Dump, seed: Seed, staging: str, path: str) -> Dump:
    """Copies the dump, which may change later: key columns as text, all cells as a JSON object (`value`)."""
    cells = F.to_json(
        F.struct(*(F.col(quoted(name)) for name in dump.columns)), {"ignoreNullFields": "false"}
    )
    keys = [F.col(quoted(name)).alias(key) for key, name in zip(_key_columns(seed), seed.key, strict=True)]
    try:
        dump.rows.select(*keys, cells.cast("binary").alias("value")).write.mode("overwrite").parquet(staging)
    except Exception as error:  # the file of a user may be broken in any way, and at any row
        raise MainstemError(
            "DUMP_UNREADABLE", found=cause_of(error), where=path, action="repair the dump; nothing has landed"
        ) from error
    schema = ", ".join([*(f"{key} string" for key in _key_columns(seed)), "value binary"])
    return Dump(read_parquet(run.spark, schema, staging), dump.columns)


def _check_keys(dump: Dump, seed: Seed, path: str) -> None:
    """Raises KEY_TWICE where two rows have the same key: nobody can tell which of them is right."""
    keys = _key_columns(seed)
    twice = dump.rows.groupBy(*keys).count().where("count > 1").orderBy(*keys).first()
    if twice is not None:
        row = " ".join(f"{name}={twice[key]}" for key, name in zip(keys, seed.key, strict=True))
        action = (
            "dump the table again, or correct its key: in the feed if that names it, else `keys` under"
            " `tables:`; nothing has landed"
        )
        raise MainstemError(
            "KEY_TWICE", found=f"{quantity(twice['count'], 'row')} with {row}", where=path, action=action
        )


def _key_columns(seed: Seed) -> Sequence[str]:
    return [f"k{i}" for i in range(len(seed.key))]


def _messages(rows: DataFrame, seed: Seed, name: str, count: int, path: str) -> DataFrame:
    """The rows as MESSAGES of a topic that ends in `name`, in the order of their keys."""
    table = dotted_name(seed.database, seed.schema, seed.table)
    parts = _PARTITIONS if count > _ONE_PARTITION_ROWS else 1
    numbered = rows.withColumn("partition", F.pmod(F.xxhash64(*_key_columns(seed)), F.lit(parts)).cast("int"))
    numbered = numbered.withColumn(
        "offset",
        F.row_number().over(Window.partitionBy("partition").orderBy(*_key_columns(seed))).cast("long"),
    )
    header = F.struct(F.lit(SEED).alias("key"), F.lit(header_text(seed)).alias("value"))
    filled = {
        "source": F.lit(seed.source),
        "topic": F.lit(f"{TOPIC}{table}/{name}"),
        "headers": F.array(header).cast(HEADERS),
        "file": F.lit(path),
        "ingested_at": F.current_timestamp(),
    }
    existing = {"partition", "offset", "value"}
    return numbered.select(
        *(
            F.col(f"`{f.name}`")
            if f.name in existing
            else filled.get(f.name, F.lit(None)).cast(f.dataType).alias(f.name)
            for f in MESSAGES.fields
        )
    )


def _column_notes(
    dump_columns: Sequence[str] | dict[str, str | None], feed_columns: Sequence[str]
) -> list[str]:
    """Notes on columns that only the dump or only the feed has."""
    if not feed_columns:
        return []
    unknown, missing = (
        [name for name in dump_columns if name not in feed_columns],
        [name for name in feed_columns if name not in dump_columns],
    )
    notes = [f"the feed has not shown these columns of the dump: {', '.join(unknown)}"] if unknown else []
    return (
        [
            *notes,
            f"the dump lacks these columns of the feed, which are null in its rows: {', '.join(missing)}",
        ]
        if missing
        else notes
    )
