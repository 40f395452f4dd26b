"""The decoded rows of a message grow as its bytes do, whatever they are: one message fills no memory."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest

from framework.contracts.messages import RawMessage
from framework.contracts.quarantine_reasons import Malformed, Reason
from silver.changes import output_limits
from silver.changes.decode import SourcePlan, arrow_decoder
from silver.changes.staged_rows import Row, as_quarantined, plain_rows
from silver.decoding.format import Context, Format
from silver.formats import FORMATS
from tests.amounts import IS_LARGE
from tests.silver.changes.test_decode import MESSAGES
from tests.silver.formats.test_time import grown, paths
from tests.silver.recorded import format_of, recordings, sample_of

SIZES = (300, 1_200) if IS_LARGE else (800,)
FREE = 100_000
"""What the tests leave free, so that small messages show what large ones do."""
OF_A_ROW = 1_000
"""Bytes of the columns of a row that do not depend on the message."""


def decoded(fmt: Format, context: Context, *values: bytes, topic: str = "topic") -> list[pa.RecordBatch]:
    rows = [("feed", topic, 0, n, None, None, value, None, None, None) for n, value in enumerate(values)]
    columns = [pa.array(column, f.type) for column, f in zip(zip(*rows, strict=True), MESSAGES, strict=True)]
    plan = SourcePlan(fmt, context, 1, lambda *_: False, 10**9)
    return list(arrow_decoder({"feed": plan})([pa.RecordBatch.from_arrays(columns, schema=MESSAGES)]))


def check_size(found: list[pa.RecordBatch], length: int) -> None:
    size, rows = sum(b.nbytes for b in found), sum(b.num_rows for b in found)
    assert size <= FREE + output_limits.TIMES * length + OF_A_ROW * rows, f"{length:,} bytes became {size:,}"


@pytest.fixture
def little_free(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output_limits, "FREE_TEXT", FREE)


def canal(**members: object) -> bytes:
    message = {
        "database": "shop", "table": "orders", "type": "INSERT", "es": 1609344671000, "id": 7, "sql": "",
        "pkNames": ["id"], "mysqlType": {"id": "int"}, **members,
    }  # fmt: skip
    return json.dumps(message, separators=(",", ":")).encode()


def rows(count: int) -> list[dict[str, str]]:
    return [{"id": str(n)} for n in range(count)]


CASES: dict[str, Callable[[int], bytes]] = {
    "statements": lambda n: canal(type="QUERY", data=None, sql="DROP TABLE t;" * n),
    "tables of a statement": lambda n: canal(type="QUERY", data=None, sql=f"DROP TABLE t{',t' * 4 * n}"),
    "a long table name": lambda n: canal(table="t" * 30 * n, data=rows(n)),
    "a long database name": lambda n: canal(
        database="d" * 30 * n, type="UPDATE", data=rows(n), old=rows(n)
    ),
    "a long transaction id": lambda n: canal(gtid="g" * 30 * n, data=rows(n)),
    "a long type and new columns": lambda n: canal(
        mysqlType={"a": f"enum('{'x' * 30 * n}')"},
        data=[{"id": "1", "a": "x", f"c{i}": ""} for i in range(n)]
    ),
}  # fmt: skip


@pytest.mark.usefixtures("little_free")
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("case", CASES)
def test_what_the_rows_of_a_canal_message_repeat(case: str, size: int) -> None:
    good, value = sample_of("canal"), CASES[case](size)
    check_size(decoded(good.format, good.context, value), len(value))


def with_member(document: Any, path: tuple[Any, ...], value: object) -> bytes:
    """The document with another value at a path."""
    spot = copy.deepcopy(document)
    node = spot
    for member in path[:-1]:
        node = node[member]
    node[path[-1]] = value
    return json.dumps(spot).encode()


def of(document: Any, path: tuple[Any, ...]) -> Any:
    for member in path:
        document = document[member]
    return document


@pytest.mark.usefixtures("little_free")
@pytest.mark.parametrize("name", sorted(FORMATS))
def test_a_long_text_in_each_member_of_a_message_of_many_rows(name: str) -> None:
    good, size = sample_of(name), 250 if IS_LARGE else 150
    document = grown(good.document, size)
    if (
        sum(batch.num_rows for batch in decoded(good.format, good.context, json.dumps(document).encode()))
        == 1
    ):
        pytest.skip("a message of this format has one row")
    for path in paths(good.document):
        if isinstance(of(good.document, path), str | None):
            value = with_member(document, path, "x" * 100 * size)
            check_size(decoded(good.format, good.context, value), len(value))


def statements(name: str) -> Iterator[tuple[Context, Any, tuple[Any, ...]]]:
    """The recorded messages with a statement, and where it stands."""
    for message, context in recordings(name):
        try:
            document = json.loads(message.value or b"")
        except ValueError:
            continue
        for path in paths(document):
            text = of(document, path)
            if isinstance(text, str) and text.upper().startswith(
                ("ALTER TABLE", "CREATE TABLE", "DROP TABLE")
            ):
                yield context, document, path


FORMATS_WITH_STATEMENTS = sorted(name for name in FORMATS if next(statements(name), None) is not None)


def test_formats_with_statements() -> None:
    assert {"canal", "debezium", "maxwell"} <= set(FORMATS_WITH_STATEMENTS)


@pytest.mark.usefixtures("little_free")
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", FORMATS_WITH_STATEMENTS)
def test_many_statements_in_one_message(name: str, size: int) -> None:
    fmt = format_of(name)
    for context, document, path in list(statements(name))[:5]:
        for text in ("DROP TABLE t;" * size, "DROP TABLE t" + ",t" * 4 * size):
            value = with_member(grown(document, 20), path, text)
            check_size(decoded(fmt, context, value), len(value))


def outcomes(name: str, value: bytes, topic: str = "topic") -> list[Row]:
    good = sample_of(name)
    found = decoded(good.format, good.context, value, topic=topic)
    return [row for batch in found for row in plain_rows(pa.Table.from_batches([batch]))]


@pytest.mark.parametrize("case", ["a long transaction id", "a long type and new columns"])
def test_what_goes_beyond_is_one_quarantined_message(case: str) -> None:
    (row,) = outcomes("canal", CASES[case](1_800))
    assert (row["kind"], row["reason"]) == ("quarantined", Reason.TOO_LARGE)
    assert "repeat more than" in row["detail"]


def test_a_name_longer_than_any_database_allows_is_one_quarantined_message() -> None:
    assert len(outcomes("canal", canal(table="t" * 1_000, data=rows(3)))) == 3
    (row,) = outcomes("canal", canal(table="t" * 1_001, data=rows(3)))
    assert (row["reason"], row["detail"]) == (
        Reason.WRONG_SHAPE,
        "a name of a database or table has 1,001 characters, at most 1,000",
    )


def test_a_long_topic_name_with_many_rows_is_one_quarantined_message() -> None:
    (row,) = outcomes("canal", canal(data=rows(2_000), es=1609344671000), topic="9" * 200_000)
    assert row["reason"] == Reason.TOO_LARGE


def test_too_many_rows_are_one_quarantined_message(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output_limits, "MOST_EVENTS", 10)
    assert len(outcomes("canal", canal(data=rows(10)))) == 10
    (row,) = outcomes("canal", canal(data=rows(11)))
    assert (row["reason"], row["detail"]) == (
        Reason.TOO_LARGE,
        "more than 10 rows or statements in one message",
    )


def test_a_quarantined_row_counts_as_its_message(monkeypatch: pytest.MonkeyPatch) -> None:
    """`silver/quarantine` has the bytes of the message beside each of its rows."""
    monkeypatch.setattr(output_limits, "FREE_TEXT", 0)
    text = output_limits.RepeatedText(1_000)
    row = as_quarantined(RawMessage("feed", "", 0, 0, None, None, b""), "canal", Malformed(Reason.EMPTY))
    for _ in range(output_limits.TIMES):
        text.add(row)
    with pytest.raises(Malformed, match="repeat more than 64,000 characters"):
        text.add(row)


def test_messages_that_become_large_together_are_decoded_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    good, values = sample_of("canal"), [canal(gtid="g" * 400, data=rows(3))] * 20
    assert len(decoded(good.format, good.context, *values)) == 1
    monkeypatch.setattr(output_limits, "LARGEST_BATCH", 5_000)
    found = decoded(good.format, good.context, *values)
    assert len(found) > 4
    assert sum(batch.num_rows for batch in found) == 60


HONEST: dict[str, tuple[bytes, int]] = {
    "thousands of rows": (canal(data=rows(20_000)), 20_000),
    "a set of transactions": (
        canal(gtid="g" * 4_000, data=[{"id": str(n), "name": "x" * 40} for n in range(5_000)]),
        5_000,
    ),
    "a script": (
        canal(
            type="QUERY", data=None,
            sql=";\n".join(
                f"CREATE TABLE t{n} (id int PRIMARY KEY, {'a varchar(255), ' * 20} b int)" for n in range(300)
            ),
        ),
        300,
    ),
    "5,000 columns": (
        canal(
            mysqlType={f"c{n}": "varchar(255)" for n in range(5_000)},
            data=[{"id": "1", **{f"c{n}": "x" for n in range(5_000)}}] * 5,
        ),
        5,
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", HONEST)
def test_honest_messages_are_not_refused(case: str) -> None:
    value, count = HONEST[case]
    found = outcomes("canal", value)
    assert len(found) == count
    assert {row["kind"] for row in found} <= {"row", "ddl"}


def test_each_statement_has_its_own_text() -> None:
    found = outcomes("canal", canal(type="QUERY", data=None, sql="DROP TABLE a; /* x */ DROP TABLE b, c;"))
    assert [(row["table"], row["statement"]) for row in found] == [
        ("a", "DROP TABLE a"),
        ("b", "DROP TABLE b, c"),
        ("c", "DROP TABLE b, c"),
    ]


def test_a_long_statement_about_many_tables_stands_once() -> None:
    text = "DROP TABLE a" + ", a" * 100
    first, *others = outcomes("canal", canal(type="QUERY", data=None, sql=text))
    assert first["statement"] == text
    assert {row["statement"] for row in others} == {text[:200] + "…"}
