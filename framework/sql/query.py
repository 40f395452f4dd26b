"""Answering a query: a read-only statement, over views that are made of the tables that it names and no others."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from pyspark.errors import AnalysisException, ParseException, PySparkException
from pyspark.sql import SparkSession, Window
from pyspark.sql import functions as F

from framework.errors import ConfigurationError, MainstemError, nearest
from framework.names import quoted
from framework.sql.answer import Answer, value
from framework.sql.names import Replica, found_view, parts, views
from framework.tables import Lakehouse, is_table, read_table, sql_name

_WORD = re.compile(r"[A-Za-z0-9_]+")
_UNKNOWN = frozenset({"TABLE_OR_VIEW_NOT_FOUND", "SCHEMA_NOT_FOUND", "REQUIRES_SINGLE_PART_NAMESPACE", "INVALID_SCHEMA_OR_RELATION_NAME"})
_MOST_VIEWS = 1_000

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class _Desk:
    spark: SparkSession
    lake: Lakehouse
    known: Mapping[str, str]
    opened: set[str] = field(default_factory=set)
    undo: list[str] = field(default_factory=list)


def answer(spark: SparkSession, lake: Lakehouse, query: str, limit: int) -> Answer:
    """The first rows of a query.

    Raises ConfigurationError SQL_NOT_A_QUERY for anything but one query, which is not run then, and MainstemError for
    a query that fails.
    """
    text = query.strip().rstrip(";").strip()
    desk = _Desk(spark, lake, views(replicas(spark, lake), lake.place))
    try:
        return _answered(desk, text, limit)
    finally:
        for statement in reversed(desk.undo):  # the session may outlive the query, and see another pipeline next
            spark.sql(statement)


def _answered(desk: _Desk, query: str, limit: int) -> Answer:
    # there the grammar allows nothing but a query, so that no other statement is ever handed to Spark by itself
    asked = f"WITH asked AS (\n{query}\n) SELECT 1 FROM asked WHERE false"  # noqa: S608
    _analysed(desk, lambda: desk.spark.sql(asked).schema, query)
    frame = _analysed(desk, lambda: desk.spark.sql(query), query)
    rows = _failing(lambda: frame.limit(limit + 1).collect(), query)
    kinds = [json.loads(field.dataType.json()) for field in frame.schema.fields]
    columns = tuple((field.name, field.dataType.simpleString()) for field in frame.schema.fields)
    plain = tuple(tuple(value(cell, kind) for cell, kind in zip(row, kinds, strict=True)) for row in rows[:limit])
    return Answer(columns, plain, len(rows) > limit)


def replicas(spark: SparkSession, lake: Lakehouse) -> list[Replica]:
    """The replicas that the pipeline has made."""
    if not lake.exists(spark, "ops/tables"):
        return []
    place = ("database", "schema", "table")
    newest = Window.partitionBy("source", *place).orderBy(F.desc("revision"))
    rows = lake.read(spark, "ops/tables").withColumn("n", F.row_number().over(newest)).where("n = 1 AND replica IS NOT NULL")
    return [Replica(*row) for row in rows.select(*place, "replica", "history").orderBy(*place).collect()]


def _analysed(desk: _Desk, analyse: Callable[[], _T], query: str) -> _T:
    """What `analyse` gives, once a view stands for every table that Spark has missed on the way."""
    for _ in range(_MOST_VIEWS):
        try:
            return analyse()
        except ParseException as error:
            raise _not_a_query(error, query) from None
        except AnalysisException as error:
            _open(desk, error, query)
    raise MainstemError("SQL_FAILED", found=f"more than {_MOST_VIEWS} tables", where=_where(query), action="name fewer tables in one query")


def _open(desk: _Desk, error: AnalysisException, query: str) -> None:
    """Make the view that the query has missed; raises MainstemError where that is not what is wrong."""
    missing = (error.getMessageParameters() or {}).get("relationName") if error.getCondition() in _UNKNOWN else None
    name = None if missing is None else found_view(missing, desk.known)
    if missing is None or name is None or missing in desk.opened:
        raise _failed(error, query, missing, desk.known) from None
    desk.opened.add(missing)
    place = desk.known[name]
    if not is_table(desk.spark, place):
        raise MainstemError("SQL_TABLE_EMPTY", found=f"{name}: nothing has been written to it yet", where=_where(query), action="run first")
    frame = read_table(desk.spark, place)
    words = parts(missing)
    if len(words) == 1:
        frame.createOrReplaceTempView(quoted(words[0]))
        desk.undo.append(f"DROP VIEW IF EXISTS {quoted(words[0])}")
    elif len(words) == 2 and all(map(_WORD.fullmatch, words)) and _is_private(desk.spark):
        database, table = map(quoted, words)
        if not desk.spark.catalog.databaseExists(words[0]):
            desk.spark.sql(f"CREATE DATABASE {database}")
            desk.undo.append(f"DROP DATABASE IF EXISTS {database} CASCADE")
        desk.spark.sql(f"CREATE OR REPLACE VIEW {database}.{table} AS SELECT * FROM {sql_name(place)}")  # noqa: S608
        desk.undo.append(f"DROP VIEW IF EXISTS {database}.{table}")
    else:
        raise MainstemError(
            "SQL_NAME_NEEDS_QUOTES",
            found=f"{'.'.join(words)} in several parts",
            where=_where(query),
            action=f"write it as one name in backquotes: {quoted(name)}",
        )


def _is_private(spark: SparkSession) -> bool:
    """Whether the session's catalog ends with it, so that a database in it is nobody else's."""
    try:
        return spark.conf.get("spark.sql.catalogImplementation") == "in-memory"
    except PySparkException:
        return False


def _failing(work: Callable[[], _T], query: str) -> _T:
    try:
        return work()
    except PySparkException as error:
        raise _failed(error, query) from None


def _not_a_query(error: ParseException, query: str) -> MainstemError:
    return ConfigurationError(
        "SQL_NOT_A_QUERY",
        found=_first_line(error),
        where=_where(query),
        action="write one query (SELECT …, WITH … SELECT …, VALUES …): nothing but `mainstem run` changes tables",
    )


def _failed(error: PySparkException, query: str, missing: str | None = None, known: Mapping[str, str] | None = None) -> MainstemError:
    names = [name for name in known or () if not name.startswith("gold.")]
    near = nearest(".".join(parts(missing)), names) if missing else None
    hint = f"did you mean {near}? " if near else ""
    listed = f"tables: {', '.join(names[:40])}{' …' if len(names) > 40 else ''}" if missing else "mend the query; nothing was changed"
    return MainstemError("SQL_FAILED", found=_first_line(error), where=_where(query), action=hint + listed)


def _first_line(error: PySparkException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0][:500] if lines else type(error).__name__


def _where(query: str) -> str:
    return f"sql {' '.join(query.split())[:200]!r}"
