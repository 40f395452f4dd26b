from __future__ import annotations

from typing import Any, cast

import pytest

from framework.contracts.ddl_actions import NoEffect, RenameTable
from framework.contracts.events import Column, Control, ControlKind
from silver.changes.ddl_events import statement_events
from silver.decoding.table_definitions import (
    DeclaredColumns,
    TableDefinition,
    TableDefinitions,
    definitions_by_table,
)
from silver.formats.debezium import FORMAT
from silver.values.sequence import epoch_position_of, sequence_of

TABLE = ("shop", None, "orders")
OLD, NEW = (("id", "INT"),), (("id", "BIGINT"),)


def test_a_structure_holds_from_its_place_to_the_next_and_the_first_one_before_it_too() -> None:
    found = definitions_by_table(
        [
            TableDefinition(*TABLE, (1, 3, 900), NEW),
            TableDefinition(*TABLE, (1, 3, 100), OLD),
            TableDefinition(*TABLE, (2, 1, 1), OLD),
        ]
    )
    places = ((1, 1, 5), (1, 3, 100), (1, 3, 899), (1, 3, 900), (1, 9, 1), (2, 1, 1))
    assert [found.columns(TABLE, position) for position in places] == [OLD, OLD, OLD, NEW, NEW, OLD]
    assert found.columns(("shop", None, "other"), (1, 1, 1)) == ()


def test_a_definition_changes_the_rows_from_its_place_on_and_the_first_one_all() -> None:
    def of(*found: tuple[int, DeclaredColumns]) -> TableDefinitions:
        return definitions_by_table([TableDefinition(*TABLE, (1, place), told) for place, told in found])

    nothing, known = TableDefinitions(), of((100, OLD))
    assert nothing.changed_by(known) == {TABLE: ()}
    assert known.changed_by(of((900, NEW))) == {TABLE: (1, 900)}
    assert known.changed_by(of((100, OLD), (900, OLD))) == {}, "the same again"
    assert known.changed_by(of((50, NEW))) == {TABLE: ()}, "an earlier one counts before it, too"
    assert of((100, OLD), (900, NEW)).changed_by(of((500, OLD))) == {}
    assert known.changed_by(nothing) == {}


def created_anew(times: int) -> TableDefinitions:
    return definitions_by_table(TableDefinition(*TABLE, (1, place), OLD) for place in range(times))


def test_a_table_that_is_created_anew_each_hour_is_read_by_the_definitions_that_change_it() -> None:
    """One that comes late holds until the next one, although that one repeated what was known."""
    many = created_anew(20_000)
    assert many.without_repeats() == created_anew(1)
    late = definitions_by_table([TableDefinition(*TABLE, (1, 7, 5), NEW)])
    found = (many | late).without_repeats()
    places = ((1,), (1, 7), (1, 7, 5), (1, 7, 9), (1, 8), (1, 30_000))
    assert [found.columns(TABLE, position) for position in places] == [OLD, OLD, NEW, NEW, OLD, OLD]
    assert many.changed_by(late) == {TABLE: (1, 7, 5)}
    assert len(found.tables[TABLE]) == 3


def test_a_look_up_reads_few_of_many_positions() -> None:
    read: list[int] = []

    class Counted:
        columns = OLD

        def __init__(self, place: int) -> None:
            self.place = place

        @property
        def position(self) -> tuple[int, ...]:
            read.append(self.place)
            return (1, self.place)

    many = TableDefinitions({TABLE: cast(Any, tuple(map(Counted, range(20_000))))})
    assert many.columns(TABLE, (1, 12_345, 6)) == OLD
    assert len(read) < 20


def test_new_definitions_are_compared_where_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []
    columns = TableDefinitions.columns
    monkeypatch.setattr(TableDefinitions, "columns", lambda *args: asked.append(args[2]) or columns(*args))
    again = definitions_by_table([TableDefinition(*TABLE, (1, 20_000), OLD)])
    assert created_anew(20_000).changed_by(again) == {}
    assert len(asked) == 4


def test_structures_of_two_batches_are_one_list() -> None:
    first, second = (
        definitions_by_table([TableDefinition(*TABLE, (1, 1), OLD)]),
        definitions_by_table([TableDefinition(*TABLE, (1, 5), NEW), TableDefinition(*TABLE, (1, 1), OLD)]),
    )
    assert first | second == second


def test_a_sequence_tells_its_place() -> None:
    assert epoch_position_of(sequence_of(2, (3, 484, 0), None)) == (2, 3, 484, 0)
    for topic in ("shop.schema-1", "12", "7.jsonl", ""):
        assert epoch_position_of(sequence_of(2, (484,), (topic, 0, 11, 0))) == (2, 484)


def test_the_structure_of_a_renamed_table_is_its_new_names() -> None:
    columns = {"id": Column(type="int", declared="INT")}
    event = Control(
        ControlKind.DDL,
        "ALTER",
        *TABLE,
        statement="RENAME TABLE shop.old TO shop.orders",
        position=(3, 7),
        columns=columns,
        dialect="mysql",
    )
    rename, structure = statement_events(event, FORMAT)
    assert (rename.table, rename.columns, [type(a) for a in rename.actions or ()]) == (
        "old",
        {},
        [RenameTable],
    )
    assert (structure.table, structure.columns, structure.actions) == (
        "orders",
        columns,
        (NoEffect("structure"),),
    )
