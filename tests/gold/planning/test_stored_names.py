"""The columns of a replica that the policy `ignore` freezes, by the names of today."""

from __future__ import annotations

from framework.config.tables import SchemaPolicy, TableSettings
from framework.contracts.ddl_actions import AddColumn, DropColumn, TableName
from gold.changes.few_changes import FewChange, FewMeasurements
from gold.changes.profile import Progress, SchemaColumn, namings_for, profile_of
from gold.planning.keys import table_key
from gold.planning.rebuild import lineage_digest
from gold.planning.stored_names import frozen_columns
from gold.planning.table_state import State, TableState
from gold.planning.task import Task
from gold.schema.columns import (
    TableColumn,
    evidence_by_column,
    ordered_names,
    resolve_columns,
    types_from_statements,
)
from gold.schema.lineage import Lineage, Segment

TABLE = TableName("shop", None, "item")
IGNORE = TableSettings(schema_policy=SchemaPolicy.IGNORE)


def change(naming: int, sequence: str, schema: str) -> FewChange:
    image = {"id": sequence, "n": "5"}
    return FewChange(
        f"id{sequence}",
        naming,
        naming,
        "insert",
        sequence,
        None,
        ("id", "n"),
        None,
        image,
        False,
        False,
        schema,
    )


def test_a_key_column_that_is_dropped_and_added_again_stays_in_the_replica_with_its_type() -> None:
    id_int, n_int = SchemaColumn("id", "int", "int", None), SchemaColumn("n", "int", "int", None)
    n_text = SchemaColumn("n", "string", "text", None)
    schemas = {"first": (id_int, n_int), "then": (id_int, n_text)}
    rows = [change(0, "1", "first"), change(2, "7", "then")]
    first = Lineage(TABLE, (Segment(TABLE, "", None),))
    steps = (("5", DropColumn("n")), ("6", AddColumn("n", "string", "text")))
    then = Lineage(TABLE, first.segments, steps)
    applied = profile_of(FewMeasurements(rows[:1], Progress()), first, schemas)
    stored = (TableColumn("id", "int", "int"), TableColumn("n", "int", "int"))
    state = TableState(
        "feed", TABLE, State.ACTIVE, replica="item", keys=("id", "n"), columns=stored, batch=0, sequence="1",
        profile=applied, lineage=lineage_digest(first),
    )  # fmt: skip
    task = Task("feed", then, state, IGNORE, 2, 2, 2)
    found = profile_of(FewMeasurements(rows, Progress()), then, schemas)
    namings = namings_for(then, SchemaPolicy.IGNORE, found, stored)
    known = resolve_columns(
        ordered_names(found.column_orders, then, namings),
        evidence_by_column(found.evidence, namings),
        types_from_statements(then, namings),
        IGNORE,
    )
    columns = frozen_columns(task, namings, known)
    assert [(column.name, column.type) for column in columns] == [("id", "int"), ("n", "int")]
    assert table_key(task, found, namings, columns) == ("id", "n")
