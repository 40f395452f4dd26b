"""The time that a message takes grows as its bytes do, whatever they are: one message holds nobody up."""

from __future__ import annotations

import copy
import gc
import json
import time
from collections.abc import Callable, Iterator
from functools import cache, partial
from typing import Any

import pyarrow as pa
import pytest

from framework.contracts.ddl_actions import TableName, Unsupported
from framework.contracts.messages import RawMessage
from silver.changes.decode import SourcePlan, arrow_decoder
from silver.changes.pairing import pair
from silver.ddl.alter_table import MOST_CLAUSES
from silver.ddl.parser import parse_ddl
from silver.ddl.tokens import DEEPEST, DIALECTS, LONGEST_TEXT
from silver.decoding.format import Context, Options
from silver.formats import FORMATS
from silver.values.sql_types import type_of_ddl
from tests.amounts import IS_LARGE
from tests.silver.changes.test_decode import MESSAGES
from tests.silver.changes.test_pairing import after, before
from tests.silver.recorded import Sample, sample_of

TIMES, MOST_TIMES = 8, 24
"""A message that is so many times longer may take at most so many times longer:
what is quadratic takes 64 times.
"""
QUICK = 0.06
"""Seconds: less than that says nothing."""
PART = 1 if IS_LARGE else 4
"""The default run takes messages of a part of the size."""
MEMBERS = 1_000 if IS_LARGE else 6
"""It puts each text in so many members of a message, and another text in the next ones."""


def seconds(run: Callable[[Any], object], argument: Any) -> float:
    # it would go through all that the tests before this one left, which is not the message's doing
    gc.disable()
    try:
        begun = time.process_time()
        run(argument)
        return time.process_time() - begun
    finally:
        gc.enable()


def check_growth(run: Callable[[Any], object], made: Callable[[int], Any], size: int) -> None:
    """Raises where eight times as much takes far more than eight times as long;
    the best of several tries counts.
    """
    small, large = made(size // PART), made(TIMES * size // PART)
    long = short = float("inf")
    for _ in range(8):
        long = min(long, seconds(run, large))
        if long < QUICK:
            return
        short = min(short, *(seconds(run, small) for _ in range(3)))
        if long <= MOST_TIMES * short:
            return
    pytest.fail(f"{TIMES} times as much takes {long / short:.0f} times as long, {long:.1f} s")


STATEMENTS: dict[str, Callable[[int], str]] = {
    "parentheses": lambda n: f"ALTER TABLE t ADD COLUMN a int DEFAULT {'(' * n}1{')' * n}",
    "parentheses side by side": lambda n: (
        f"CREATE TABLE t ({','.join(f'a{i} decimal(5,2)' for i in range(n // 16))})"
    ),
    "parentheses that are open": lambda n: f"ALTER TABLE t ADD a int DEFAULT {'(' * n}",
    "nested comments": lambda n: "/*" * n + "*/" * n + "DROP TABLE t",
    "open comments": lambda n: "/*!50000 " + "/*" * n,
    "versioned comments": lambda n: "/*!50000 a*/" * (n // 12),
    "escaped quotes": lambda n: "ALTER TABLE t ADD a varchar(9) DEFAULT '" + "\\'" * n + "'",
    "escaped quotes without an end": lambda n: "/*!50000 */ ALTER TABLE t COMMENT '" + "\\'" * n,
    "doubled quotes": lambda n: "/*!50000 */ ALTER TABLE t COMMENT '" + "''" * n,
    "renames": lambda n: "ALTER TABLE t " + ", ".join(f"RENAME COLUMN a{i} TO b{i}" for i in range(n // 8)),
    "renames in a chain": lambda n: (
        "ALTER TABLE t " + ", ".join(f"RENAME COLUMN a{i} TO a{i + 1}" for i in range(n // 16))
    ),
    "renames in a circle": lambda n: (
        "ALTER TABLE t " + ", ".join(f"RENAME COLUMN a{i} TO a{(i + 1) % (n // 16)}" for i in range(n // 16))
    ),
    "columns one behind the other": lambda n: (
        "ALTER TABLE t " + ", ".join(f"ADD a{i} int AFTER a{i - 1}" for i in range(n // 16))
    ),
    "statements": lambda n: "DROP TABLE t;" * (n // 8),
    "blocks": lambda n: "CREATE PROCEDURE p AS " + "BEGIN " * n,
    "a long name": lambda n: "DROP TABLE " + "a" * n,
    "levels of a name": lambda n: "DROP TABLE " + "a." * n + "a",
    "digits": lambda n: "ALTER TABLE t ADD a decimal(38,2) DEFAULT " + "9" * n,
    "signs": lambda n: "ALTER TABLE t ADD a int DEFAULT " + "- " * n,
    "a long type": lambda n: f"ALTER TABLE t ADD a foo(1){' x' * n}(",
    "values of a set": lambda n: (
        f"ALTER TABLE t ADD a set({','.join(f'{i}' for i in range(n // 8))}) DEFAULT 'x,y'"
    ),
    "dollars": lambda n: "".join(f"$t{i}$" for i in range(n // 6)),
    "brackets": lambda n: "ALTER TABLE t ADD [" * (n // 16),
    "zeros": lambda n: "\x00" * n,
    "open lists of values": lambda n: "ENUM(" * (n // 5),
    "quotes behind backslashes": lambda n: "\\'" * (n // 2),
    "double quotes behind backslashes": lambda n: '\\"' * (n // 2),
}


@pytest.mark.parametrize("case", STATEMENTS)
def test_statements(case: str) -> None:
    table = TableName("shop", None, "t")
    for dialect in ("mysql", "postgres"):
        check_growth(partial(parse_ddl, dialect=dialect, table=table), STATEMENTS[case], 3_000)


@pytest.mark.parametrize("case", STATEMENTS)
def test_the_sql_of_statements(case: str) -> None:
    def message(size: int) -> RawMessage:
        flat = {"type": "ALTER", "isDdl": True, "es": 1, "sql": STATEMENTS[case](size)}
        return RawMessage("feed", "shop", 0, 0, None, None, json.dumps(flat).encode())

    context = Context("feed", Options(), "UTC", lambda *_: None)
    check_growth(lambda sent: FORMATS["oms_canal"].decode(sent, context), message, 30_000)


def test_statements_beyond_the_limits_are_not_understood() -> None:
    renames = ", ".join(f"RENAME COLUMN a{i} TO b{i}" for i in range(MOST_CLAUSES + 1))
    deep = f"({'(' * DEEPEST}1{')' * DEEPEST})"
    for text in (
        f"ALTER TABLE t {renames}",
        f"ALTER TABLE t ADD a int DEFAULT {deep}",
        "DROP TABLE t" + " " * LONGEST_TEXT,
    ):
        for dialect in (*sorted(DIALECTS), ""):
            (statement,) = parse_ddl(text, dialect=dialect, table=TableName("shop", None, "t"))
            (action,) = statement.actions
            assert isinstance(action, Unsupported)


def test_long_types() -> None:
    assert type_of_ddl("enum('a','b'" + ",'c'" * 10_000 + ")", "mysql") == "string"
    for dialect in DIALECTS:
        check_growth(partial(type_of_ddl, dialect=dialect), lambda n: f"foo(1){'x' * n}(", 20_000)


TEXTS: dict[str, Callable[[int], bytes]] = {
    "arrays in arrays": lambda n: b"[" * n,
    "arrays in arrays with an end": lambda n: b"[" * (n // 2) + b"]" * (n // 2),
    "objects in objects": lambda n: b'{"a":' * (n // 5),
    "an array": lambda n: b"[" + b"1," * (n // 2) + b"1]",
    "an array of objects": lambda n: b"[" + b'{"a":1},' * (n // 8) + b"{}]",
    "a name with one value": lambda n: b"{" + b'"a":1,' * (n // 6) + b'"a":1}',
    "a name with many values": lambda n: b"{" + b",".join(b'"a":%d' % i for i in range(n // 10)) + b"}",
    "digits": lambda n: b"1" * n,
    "digits behind a point": lambda n: b"0." + b"0" * n + b"1",
    "a long exponent": lambda n: b"1e" + b"9" * n,
    "exponents": lambda n: b"[" + b"1e999999999," * (n // 12) + b"1]",
    "escaped letters": lambda n: b'"' + b"\\u0041" * (n // 6) + b'"',
    "escaped quotes": lambda n: b'"' + b'\\"' * (n // 2) + b'"',
    "backslashes": lambda n: b'"' + b"\\\\" * (n // 2) + b'"',
    "surrogates": lambda n: b'"' + b"\\ud83d\\ude00" * (n // 12) + b'"',
    "lone surrogates": lambda n: b'"' + b"\\ud83d" * (n // 6) + b'"',
    "control characters": lambda n: b'"' + b"\x01" * n + b'"',
    "bytes that are no text": lambda n: b'"' + b"\xff" * n + b'"',
    "a text without an end": lambda n: b'"' + b"x" * n,
    "spaces": lambda n: b" " * n + b"1",
    "spaces in a text": lambda n: b'"' + b" " * n + b'1"',
    "digits in a text": lambda n: b'"' + b"1" * n + b'"',
    "points in a text": lambda n: b'"' + b"1." * (n // 2) + b'"',
    "parentheses in a text": lambda n: b'"' + b"(" * n + b'"',
    "base64": lambda n: b'"' + b"QUJD" * (n // 4) + b'="',
    "hexadecimal digits": lambda n: b'"0x' + b"fF" * (n // 2) + b'"',
    "a long fraction": lambda n: b'"2024-02-29 10:00:00.' + b"0" * n + b'"',
    "an object in a text": lambda n: b'"' + b'{\\"a\\":' * (n // 7) + b'"',
    "commas in a text": lambda n: b'"' + b"a:1-2," * (n // 6) + b'"',
}


MARK = json.dumps("a mark in the place of a value").encode()


@cache
def marked_sample(name: str) -> list[bytes]:
    """The sample of a format once for each of its members, with the mark in the member's place."""
    return list(marked(sample_of(name).document))


def spoiled(document: Any, value: bytes) -> Iterator[bytes]:
    """The document once for each of its members, with these bytes in the member's place."""
    return (text.replace(MARK, value) for text in marked(document))


def marked(document: Any) -> Iterator[bytes]:
    """The document once for each of its members, with the mark in the member's place."""
    copied = copy.deepcopy(document)
    for *outer, last in list(paths(copied)):
        node = copied
        for member in outer:
            node = node[member]
        value, node[last] = node[last], json.loads(MARK)
        yield json.dumps(copied).encode()
        node[last] = value


def paths(node: Any) -> Iterator[tuple[Any, ...]]:
    members = (
        node.items() if isinstance(node, dict) else enumerate(node[:1]) if isinstance(node, list) else ()
    )
    for member, inner in members:
        yield (member,)
        yield from ((member, *path) for path in paths(inner))


def normalized(
    good: Sample, value: bytes | None, key: bytes | None = None, header: bytes | None = None
) -> None:
    """The outcome of a message, as silver finds it."""
    headers = (
        None
        if header is None
        else [{"key": "__debezium.op", "value": header}, {"key": "mainstem.seed", "value": header}]
    )
    row = ("feed", "topic", 0, 0, None, good.key if key is None else key, value, headers, None, None)
    batch = pa.RecordBatch.from_arrays(
        [pa.array([cell], f.type) for cell, f in zip(row, MESSAGES, strict=True)], schema=MESSAGES
    )
    plan = SourcePlan(good.format, good.context, 1, lambda *_: False, 10**9)
    (found,) = arrow_decoder({"feed": plan})([batch])
    assert found.num_rows


@pytest.mark.parametrize("name", sorted(FORMATS))
@pytest.mark.parametrize("case", TEXTS)
def test_messages(name: str, case: str) -> None:
    good, text = sample_of(name), TEXTS[case]
    check_growth(lambda value: normalized(good, value, key=value, header=value), text, 16_000)
    check_growth(lambda value: normalized(good, value), lambda n: good.value((b'"cell"', text(n))), 16_000)
    samples = marked_sample(name)
    begin = list(TEXTS).index(case) * MEMBERS % len(samples)
    samples = (samples[begin:] + samples[:begin])[:MEMBERS]

    def members(size: int) -> list[bytes]:
        return [value.replace(MARK, text(size)) for value in samples]

    def read(values: list[bytes]) -> None:
        for value in values:
            normalized(good, value)

    check_growth(read, members, 32_000 // len(samples))


@pytest.mark.parametrize("name", sorted(FORMATS))
def test_messages_of_many_members_and_rows(name: str) -> None:
    good = sample_of(name)
    check_growth(
        lambda value: normalized(good, value),
        lambda n: good.value(*((b'"c%d"' % i, b"%d" % i) for i in range(n))),
        1_000,
    )
    check_growth(
        lambda value: normalized(good, value), lambda n: good.value(*[(b'"cell"', b"1")] * (n + 1)), 4_000
    )
    check_growth(
        lambda value: normalized(good, value), lambda n: json.dumps(grown(good.document, n)).encode(), 400
    )


def grown(node: Any, times: int) -> Any:
    """The document with so many times the elements in each of its lists; lists in lists stay."""
    if isinstance(node, dict):
        return {name: grown(value, times) for name, value in node.items()}
    return node * times if isinstance(node, list) else node


def test_halves_at_one_position() -> None:
    def halves(count: int) -> list[Any]:
        images = [{"id": str(n), "name": "x"} for n in range(count)]
        return [
            half for n, image in enumerate(images) for half in (before(image, 2 * n), after(image, 2 * n + 1))
        ]

    check_growth(pair, halves, 250)
