"""Runs a read-only query over the tables of the pipeline that it names, and no others."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from pyspark.errors import AnalysisException, ParseException, PySparkException
from pyspark.sql import DataFrame, Row, SparkSession, Window
from pyspark.sql import functions as F

from framework.config.tables import TableRules
from framework.contracts.table_names import TABLES_TABLE
from framework.errors import ConfigurationError, MainstemError, nearest
from framework.lakehouse.lakehouse import Lakehouse, is_called, is_path, is_table, read_table, sql_text
from framework.naming import dotted_name, quoted, replica_folder
from framework.spark.tuning import put_back
from framework.sql.guard import Refused, names_in, wrap_query
from framework.sql.names import Replica, differ_by_case, find_view, parts, shared_names, views
from framework.sql.plan import Readable, check_plan
from framework.sql.result import Answer, value

_WORD = re.compile(r"[A-Za-z0-9_]+")
_UNKNOWN = frozenset(
    {
        "TABLE_OR_VIEW_NOT_FOUND",
        "SCHEMA_NOT_FOUND",
        "REQUIRES_SINGLE_PART_NAMESPACE",
        "INVALID_SCHEMA_OR_RELATION_NAME",
    }
)
_PLACE = re.compile(r"\bline (\d+)(,?) pos (\d+)")
_NEAR = re.compile(r"\bnear '(\w+)'")
_BEGINNING = """
    ALTER ANALYZE CALL COPY CREATE DELETE DROP GRANT INSERT MERGE OPTIMIZE REFRESH REPLACE RESTORE REVOKE
    SELECT SET TRUNCATE UPDATE VACUUM
"""
_STATEMENTS = frozenset(_BEGINNING.split())
"""Words with which another statement begins, where a query has none of them."""
_MOST_VIEWS = 1_000
_FILES_AS_TABLES = "spark.sql.runSQLOnFiles"
"""Spark's setting for names such as `` text.`/etc/passwd` ``, which read any file."""

_NO_RULES = TableRules(())
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class QuerySession:
    """The state of one query.

    Attributes:
        spark: The session.
        lake: The lakehouse.
        known: The locations of tables by their names.
        shared: The names that several replicas have, with their own names.
        unwritten: The names of tables without a replica, and of histories that others have in another case.
        opened: The tables that the query has opened.
        readable: What it may read.
        undo: The statements that clean up.
    """

    spark: SparkSession
    lake: Lakehouse
    known: Mapping[str, str]
    shared: Mapping[str, tuple[str, ...]]
    unwritten: frozenset[str] = frozenset()
    opened: set[str] = field(default_factory=set)
    readable: Readable = field(default_factory=Readable)
    undo: list[str] = field(default_factory=list)


def answer(
    spark: SparkSession, lake: Lakehouse, query: str, limit: int, rules: TableRules = _NO_RULES
) -> Answer:
    """The first rows of a query, `limit` at most; `rules` has the names of replicas in gold.

    Raises ConfigurationError BAD_LIMIT for a limit below 1, and SQL_NOT_A_QUERY for anything but one query of
    functions without side effects, which does not run then, and TABLE_AMBIGUOUS for a name that several
    replicas have; MainstemError for a query that fails.
    """
    if limit < 1:
        raise ConfigurationError(
            "BAD_LIMIT", found=str(limit), where="limit", action="write a number of rows from 1"
        )
    text = query.strip().rstrip(";").strip()
    try:
        statement = wrap_query(text)
    except Refused as error:
        raise _not_a_query(str(error), query) from None
    rows = _tables(spark, lake)
    known = [_replica(lake, row, rules) for row in rows if row["replica"] is not None]
    places = views(known, lake.location)
    session = QuerySession(spark, lake, places, shared_names(known), _unwritten(rows, places))
    _refuse_twins(session, text)
    session.readable.tables.update(
        ".".join(parts(place)) for place in session.known.values() if not is_path(place)
    )
    with _without_files_as_tables(spark):
        try:
            return _answered(session, statement, text, limit)
        finally:
            # the session may outlive the query, and read another pipeline next
            for cleanup in reversed(session.undo):
                spark.sql(cleanup)


@contextlib.contextmanager
def _without_files_as_tables(spark: SparkSession) -> Iterator[None]:
    """Prevent a query from naming a file as a table.

    Where the platform forbids this setting, the privileges of its user decide which files can be read.
    """
    try:
        before = spark.conf.get(_FILES_AS_TABLES, None)
        spark.conf.set(_FILES_AS_TABLES, "false")
    except PySparkException:
        yield
        return
    try:
        yield
    finally:
        put_back(spark, {_FILES_AS_TABLES: before})


def _answered(session: QuerySession, statement: str, query: str, limit: int) -> Answer:
    frame = _analysed(session, lambda: _with_schema(session.spark.sql(statement)), query)
    try:
        check_plan(frame, session.readable)
    except Refused as error:
        raise _not_a_query(str(error), query) from None
    rows = _failing(lambda: frame.limit(limit + 1).collect(), query)
    kinds = [json.loads(field.dataType.json()) for field in frame.schema.fields]
    columns = tuple((field.name, field.dataType.simpleString()) for field in frame.schema.fields)
    plain = tuple(
        tuple(value(cell, kind) for cell, kind in zip(row, kinds, strict=True)) for row in rows[:limit]
    )
    return Answer(columns, plain, len(rows) > limit)


def _with_schema(frame: DataFrame) -> DataFrame:
    """The frame, analysed: Spark Connect does that only on a request for the schema."""
    frame.schema  # noqa: B018
    return frame


def _tables(spark: SparkSession, lake: Lakehouse) -> list[Row]:
    """The tables that the runs have seen, with the places of their replicas and histories."""
    if not lake.exists(spark, TABLES_TABLE):
        return []
    place = ("source", "database", "schema", "table")
    newest = Window.partitionBy(*place).orderBy(F.desc("revision"))
    rows = lake.read(spark, TABLES_TABLE).withColumn("n", F.row_number().over(newest)).where("n = 1")
    return rows.select(*place, "replica", "history").orderBy(*place[1:], "source").collect()


def _unwritten(rows: Sequence[Row], known: Collection[str]) -> frozenset[str]:
    tables = {dotted_name(*row[1:4]) for row in rows if row["replica"] is None}
    histories = {f"{dotted_name(*row[1:4])}__history" for row in rows if row["history"] is None}
    folded = {name.casefold() for name in known}
    found = tables | {name for name in histories if name.casefold() in folded}
    return frozenset(found | {f"gold.{name}" for name in found}).difference(known)


def _refuse_twins(session: QuerySession, query: str) -> None:
    """Refuse a query with two tables whose names differ by case alone: Spark reads one of them for both."""
    others = dict.fromkeys((*session.shared, *session.unwritten), "")
    twins = differ_by_case(names_in(query), {**others, **session.known})
    if twins is not None:
        raise ConfigurationError(
            "TABLE_AMBIGUOUS",
            found=f"{twins[0]} and {twins[1]}, which are one name for Spark",
            where=_where(query),
            action="query them one by one, or give one another name in gold (`replica` under `tables`)",
        )


def _replica(lake: Lakehouse, row: Row, rules: TableRules) -> Replica:
    name = (row["database"], row["schema"], row["table"])
    own = _own_name(row["replica"], rules.settings(row["source"], *name).replica_parts, name)
    return Replica(*name, str(lake.own_location(row["replica"])), lake.own_location(row["history"]), own)


def _own_name(location: str, *names: tuple[str | None, str | None, str] | None) -> str | None:
    """That of the names which a replica has; None where it has another one until the next run."""
    own = (name for name in names if name and is_called(location, f"gold/{replica_folder(*name)}"))
    return next((dotted_name(*name) for name in own), None)


def _analysed(session: QuerySession, analyse: Callable[[], _T], query: str) -> _T:
    """The result of `analyse`, after a view is made for every table that Spark does not find."""
    for _ in range(_MOST_VIEWS):
        try:
            return analyse()
        except ParseException as error:
            words = _first_line(error)
            if (found := _NEAR.search(words)) and found[1].upper() in _STATEMENTS:
                raise _not_a_query(
                    f"the word {found[1].upper()}, with which another statement begins", query
                ) from None
            raise _failed_at(_syntax(words, query), query) from None
        except AnalysisException as error:
            _open(session, error, query)
    raise MainstemError(
        "SQL_FAILED",
        found=f"more than {_MOST_VIEWS} tables",
        where=_where(query),
        action="name fewer tables in one query",
    )


def _open(session: QuerySession, error: AnalysisException, query: str) -> None:
    """Create the view that the query needs; raises MainstemError for any other error."""
    missing = (
        (error.getMessageParameters() or {}).get("relationName") if error.getCondition() in _UNKNOWN else None
    )
    name = None if missing is None else find_view(missing, {**session.known, **session.shared})
    asked = ".".join(parts(missing or ""))
    if asked in session.unwritten and asked not in {**session.known, **session.shared}:
        raise MainstemError(
            "SQL_TABLE_EMPTY",
            found=f"{asked}: it has not been written",
            where=_where(query),
            action="`mainstem status` says why",
        )
    if missing is None or name is None or missing in session.opened:
        raise _failed(error, query, missing, session.known) from None
    if name in session.shared:
        own = session.shared[name]
        raise ConfigurationError(
            "TABLE_AMBIGUOUS",
            found=f"{name!r}, which is the name of several tables",
            where=_where(query),
            action=f"use a name in gold: {', '.join(own)}"
            if 0 < len(set(own)) == len(own)
            else "give each a name of its own in gold, with `replica` under `tables`, and run",
        )
    session.opened.add(missing)
    place = session.known[name]
    if not is_table(session.spark, place):
        raise MainstemError(
            "SQL_TABLE_EMPTY",
            found=f"{name}: nothing has been written to it yet",
            where=_where(query),
            action="run first",
        )
    frame = read_table(session.spark, place)
    words = parts(missing)
    if len(words) == 1:
        frame.createOrReplaceTempView(quoted(words[0]))
        session.undo.append(f"DROP VIEW IF EXISTS {quoted(words[0])}")
        session.readable.views.add(words[0])
    elif (
        len(words) == 2 and all(map(_WORD.fullmatch, words)) and is_path(place) and _is_private(session.spark)
    ):
        database, table = map(quoted, words)
        if not session.spark.catalog.databaseExists(words[0]):
            session.spark.sql(f"CREATE DATABASE {database}")
            session.undo.append(f"DROP DATABASE IF EXISTS {database} CASCADE")
        # the session's own catalog names the folder: nothing is written to it, and dropping removes no file
        session.spark.sql(f"CREATE TABLE {database}.{table} USING delta LOCATION {sql_text(place)}")
        session.undo.append(f"DROP TABLE IF EXISTS {database}.{table}")
        session.readable.tables.add(f"spark_catalog.{'.'.join(words)}")
    else:
        raise MainstemError(
            "SQL_NAME_NEEDS_QUOTES",
            found=f"{'.'.join(words)} in several parts",
            where=_where(query),
            action=f"write it as one name in backquotes: {quoted(name)}",
        )


def _is_private(spark: SparkSession) -> bool:
    """Whether the session's catalog ends with the session, so that nobody else uses its databases."""
    try:
        return spark.conf.get("spark.sql.catalogImplementation") == "in-memory"
    except PySparkException:
        return False


def _failing(work: Callable[[], _T], query: str) -> _T:
    try:
        return work()
    except PySparkException as error:
        raise _failed(error, query) from None


def _not_a_query(found: str, query: str) -> MainstemError:
    return ConfigurationError(
        "SQL_NOT_A_QUERY",
        found=found,
        where=_where(query),
        action="write one query (SELECT …, WITH … SELECT …, VALUES …): "
        "nothing but `mainstem run` changes tables",
    )


def _failed(
    error: PySparkException, query: str, missing: str | None = None, known: Mapping[str, str] | None = None
) -> MainstemError:
    names = [name for name in known or () if not name.startswith("gold.")]
    near = nearest(".".join(parts(missing)), names) if missing else None
    hint = f"did you mean {near}? " if near else ""
    listed = (
        f"tables: {', '.join(names[:40])}{' …' if len(names) > 40 else ''}"
        if missing
        else "correct the query; nothing was changed"
    )
    return _failed_at(_with_own_line(_first_line(error)), query, hint + listed)


def _failed_at(
    found: str, query: str, action: str = "correct the query; nothing was changed"
) -> MainstemError:
    return MainstemError("SQL_FAILED", found=found, where=_where(query), action=action)


def _syntax(words: str, query: str) -> str:
    """Spark's words for wrong syntax, with the line of the query itself."""
    place = _PLACE.search(words)
    if place is not None and int(place[1]) - 1 > len(query.strip().splitlines()):
        return "wrong syntax at the end of the query"
    return _with_own_line(words)


def _with_own_line(words: str) -> str:
    """What Spark says of a place in a query, which runs behind a line of ours."""
    return _PLACE.sub(lambda found: f"line {int(found[1]) - 1}{found[2]} pos {found[3]}", words)


def _first_line(error: PySparkException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0][:500] if lines else type(error).__name__


def _where(query: str) -> str:
    return f"sql {' '.join(query.split())[:200]!r}"
