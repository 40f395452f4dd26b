from __future__ import annotations

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
