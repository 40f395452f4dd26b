"""The schemas of decoded rows: columns with the types that the feed declares or that values show."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from framework.contracts.canonical_types import is_canonical
from framework.contracts.events import Column, Token
from silver.changes.change_id import digest
from silver.changes.staged_rows import Row


def describe_schemas(rows: list[Row]) -> None:
    """Give each row its `schema_id`, and the first row of each schema the schema's columns.

    Declared columns are as the message says. For undeclared ones the tokens of all rows of a table up to its
    next DDL are joined, so that rows with and without nulls share a schema. A column with two kinds of values
    keeps them apart, row by row: they may be two columns, where a late statement gave the second one the name
    of the first.
    """
    written: set[str] = set()
    start = 0
    for end in range(len(rows) + 1):
        if end == len(rows) or rows[end]["kind"] in ("ddl", "truncate"):
            _describe(rows[start : end + 1], written)
            start = end + 1


def _describe(rows: list[Row], written: set[str]) -> None:
    shapes: dict[tuple[Any, ...], Mapping[str, Column]] = {}  # decoders use one object for equal schemas
    described: list[tuple[Row, tuple[Any, ...]]] = []
    for row in rows:
        shape = row["shape"]
        if shape:
            place = (id(shape), row["source"], row["database"], row["schema"], row["table"])
            shapes[place] = shape
            described.append((row, place))
    texts = _texts_of(shapes)
    for row, place in described:
        row["schema_id"], text = texts[place]
        row["columns"] = None if row["schema_id"] in written else text
        written.add(row["schema_id"])


def _check_types(shape: Mapping[str, Column]) -> None:
    """Raises ValueError where a column has an invalid type, because gold writes types into statements."""
    for column in shape.values():
        if column.type is not None and not is_canonical(column.type):
            raise ValueError("no canonical type")


def _texts_of(
    shapes: Mapping[tuple[Any, ...], Mapping[str, Column]],
) -> dict[tuple[Any, ...], tuple[str, str]]:
    """The `schema_id` and the text of each schema."""
    tokens: dict[tuple[Any, ...], set[Token]] = {}
    for place, shape in shapes.items():
        for name, column in shape.items():
            if column.token is not None:
                tokens.setdefault((*place[1:], name), set()).add(column.token)
    joined = {
        column: ",".join(sorted(shown)) for column, shown in tokens.items() if len(shown - {Token.NULL}) < 2
    }
    known: dict[tuple[Any, ...], tuple[str, str]] = {}
    texts: dict[tuple[Any, ...], tuple[str, str]] = {}
    for place, shape in shapes.items():
        columns = tuple(
            (
                name,
                c.type,
                c.declared,
                None if c.token is None else joined.get((*place[1:], name), str(c.token)),
            )
            for name, c in shape.items()
        )
        if columns not in known:
            _check_types(shape)
            text = json.dumps(columns, ensure_ascii=False, separators=(",", ":"))
            known[columns] = (digest((text,)), text)
        texts[place] = known[columns]
    return texts
