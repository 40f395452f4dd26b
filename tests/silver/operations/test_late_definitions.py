"""Which rows are decoded again because the definition of their table came after them."""

from __future__ import annotations

import functools
import json
from dataclasses import replace
from typing import Any

import pytest
from pyspark.sql import Row

from silver.batches.encodings import EncodingRow, Encodings, RedefinedTable, read_again_row, redefined_row
from silver.batches.run_state import Progress, RunState
from silver.changes.decode import SourcePlan
from silver.changes.staged_rows import Row as Staged
from silver.decoding.table_definitions import DeclaredColumns
from silver.formats import debezium
from silver.operations.late_definitions import differs
from silver.values.sequence import sequence_of
from tests.silver.changes.test_decode import normalized, plan

TABLE = ("shop", None, "item")
UNSIGNED = (("id", "INT"), ("total", "BIGINT UNSIGNED"))
SIGNED = (("id", "INT"), ("total", "BIGINT"))
SOURCE = {"connector": "mysql", "db": "shop", "table": "item", "file": "bin.000001", "pos": 100, "row": 0}


def message(total: int | None, *, has_schema: bool = False) -> bytes:
    value: dict[str, Any] = {"op": "c", "before": None, "after": {"id": 1, "total": total}, "source": SOURCE}
    if has_schema:
        fields = [{"type": "int32", "field": "id"}, {"type": "int64", "field": "total", "optional": True}]
        after = {"type": "struct", "field": "after", "fields": fields}
        value = {"schema": {"type": "struct", "fields": [after]}, "payload": value}
    return json.dumps(value).encode()


def given(columns: DeclaredColumns) -> SourcePlan:
    base = plan(debezium.FORMAT)
    return replace(base, context=replace(base.context, definition_at=functools.partial(_columns, columns)))


def _columns(columns: DeclaredColumns, *_: object) -> DeclaredColumns:
    return columns


def kept(value: bytes, columns: DeclaredColumns) -> Row:
    """The row as silver holds it, decoded with these columns, with its message."""
    (found,) = normalized([value], given(columns))
    names = ("source", "topic", "partition", "offset", "epoch", "ordinal", "before", "after")
    row: Staged = {name: found[name] for name in names}
    declared = [Row(name=c[0], type=c[1], declared=c[2]) for c in json.loads(found["columns"])]
    return Row(**row, declared=declared, key=None, value=value, headers=None, stamp=None)


@pytest.mark.parametrize(
    ("value", "before", "after", "is_other"),
    [
        (message(-1), (), UNSIGNED, True),
        (message(1), (), UNSIGNED, True),
        (message(None), (), UNSIGNED, True),
        (message(-1), UNSIGNED, UNSIGNED, False),
        (message(-1), SIGNED, UNSIGNED, True),
        (message(-1, has_schema=True), (), SIGNED, False),
    ],
)
def test_a_row_differs_if_its_definition_makes_something_else_of_its_message(
    value: bytes, before: DeclaredColumns, after: DeclaredColumns, is_other: bool
) -> None:
    assert differs(kept(value, before), given(after)) is is_other


def test_a_row_whose_message_is_gone_differs() -> None:
    row = kept(message(1), UNSIGNED).asDict() | {"value": None}
    assert differs(Row(**row), given(UNSIGNED))


def test_a_table_is_due_until_its_rows_are_read_again() -> None:
    first, second = redefined_row("feed", TABLE, (1, 500), 3000), redefined_row("feed", TABLE, (1, 300), 5000)
    assert Encodings((first,)).redefined() == [
        RedefinedTable("feed", TABLE, sequence_of(1, (500,), None), 3000)
    ]
    (due,) = Encodings((first, second)).redefined()
    assert due == RedefinedTable("feed", TABLE, sequence_of(1, (300,), None), 5000)
    assert Encodings((first, second, read_again_row(due))).redefined() == []
    (due,) = Encodings((first, read_again_row(RedefinedTable("feed", TABLE, "", 3000)), second)).redefined()
    assert due.since == sequence_of(1, (300,), None)


def test_a_table_is_not_due_before_the_batch_that_defines_it_is_committed() -> None:
    rows = tuple(redefined_row("feed", TABLE, (1, 500), batch) for batch in (3000, 5000))
    (due,) = Encodings(rows).redefined(4001)
    assert due.batch == 3000
    assert Encodings((*rows, read_again_row(due))).redefined(4001) == []
    (due,) = Encodings((*rows, read_again_row(due))).redefined(5000)
    assert due.batch == 5000


@pytest.mark.parametrize(
    ("since", "top", "is_late"),
    [
        ((), (1, 100), True),
        ((1, 100), (1, 100), True),
        ((1, 101), (1, 100), False),
        ((1, 100), None, False),
    ],
)
def test_a_definition_is_late_where_rows_have_reached_it(
    since: tuple[int, ...], top: tuple[int, ...] | None, is_late: bool
) -> None:
    shown = Progress(None if top is None else sequence_of(top[0], top[1:], None))
    state = RunState(None, None, {}, tables={("feed", *TABLE): shown})  # type: ignore[arg-type]
    state.redefined = {("feed", TABLE): since, ("feed", ("shop", None, "new")): ()}
    expected: list[EncodingRow] = [redefined_row("feed", TABLE, since, 2000)] if is_late else []
    assert state.late_definitions(None, 2000) == expected  # type: ignore[arg-type]
    assert state.redefined == {}
