"""What a table needs: its key and columns, in place or by a rebuild, and what its policy refuses."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

import gold.planning.plan
import gold.planning.rebuild
from framework.config.tables import ColumnRule, Deletes, SchemaPolicy, TableSettings
from framework.contracts.ddl_actions import (
    ERASE_WITHOUT_STATEMENT,
    Action,
    AddColumn,
    ChangeType,
    CreateTable,
    DropColumn,
    DropTable,
    RenameColumn,
    TableName,
    Unsupported,
)
from framework.errors import MainstemError
from framework.lakehouse.lakehouse import Lakehouse
from gold.changes.few_changes import TableChanges
from gold.changes.profile import Profile, Progress, SchemaColumn
from gold.changes.profile_queries import profile_rows
from gold.planning.plan import Plan, make_plan, plan_to_read
from gold.planning.rebuild import FAILED_REBUILD, lineage_digest, settings_fingerprint
from gold.planning.refusals import refuse_statements
from gold.planning.table_state import State, TableState
from gold.planning.task import Task, folder_of
from gold.schema.columns import ColumnOrder, TableColumn
from gold.schema.lineage import ColumnAction, Lineage, Segment, trace_tables
from gold.schema.source_statements import Statement
from gold.schema.type_inference import ColumnEvidence

ORDERS = TableName("shop", None, "orders")
NO_PAST = Progress()
ROW = (
    "source string, database string, schema string, `table` string, kind string, batch bigint, op string, "
    "sequence string, "
    "event_time timestamp, keys array<string>, before map<string,string>, after map<string,string>, "
    "partial boolean, schema_id string"
)
ID_NAME = (SchemaColumn("id", "int", "int(11)", None), SchemaColumn("name", "string", "text", None))
SCHEMAS: dict[str, Sequence[SchemaColumn]] = {
    "id_name": ID_NAME,
    "id_name_city": (*ID_NAME, SchemaColumn("city", "string", "text", None)),
    "wide_id": (SchemaColumn("id", "bigint", "bigint", None), ID_NAME[1]),
    "number_name": (ID_NAME[0], SchemaColumn("name", "int", "int", None)),
    "id_title": (ID_NAME[0], SchemaColumn("title", "string", "text", None)),
    "id_only": (ID_NAME[0],),
    "amount": (ID_NAME[0], SchemaColumn("amount", "int", "int", None)),
    "large_amount": (ID_NAME[0], SchemaColumn("amount", "bigint", "bigint", None)),
    "exact_amount": (ID_NAME[0], SchemaColumn("amount", "decimal(12,2)", "decimal(12,2)", None)),
    "name_id": (ID_NAME[1], ID_NAME[0]),
    "flag": (ID_NAME[0], SchemaColumn("flag", "boolean", "bit(1)", None)),
    "twins": (*ID_NAME, SchemaColumn("Name", "string", "text", None)),
}
VALUES = {
    "id": "1",
    "name": "pen",
    "title": "pen",
    "city": "Faro",
    "amount": "5",
    "Name": "Pen",
    "flag": "false",
}


def shown(
    rows: DataFrame,
    lineage: Lineage,
    schemas: Mapping[str, Sequence[SchemaColumn]],
    past: Progress = NO_PAST,
    earlier: Profile | None = None,
) -> Profile:
    """What `profile_rows` gives, without its aggregations; the numbers of these tests are all 1 and 5."""
    assert {name for _, name in (earlier or Profile()).evidence} <= set(VALUES)
    changes = [row.asDict() for row in rows.collect()]
    if not changes:
        return Profile()
    seen: dict[tuple[int, str], ColumnEvidence] = {}
    column_orders: dict[tuple[int, tuple[str, ...]], str] = {}
    for row in changes:
        naming = sum(at <= row["sequence"] for at, _ in lineage.column_changes)
        columns = schemas[row["schema_id"]]
        names = tuple(c.name for c in columns)
        column_orders[naming, names] = max(column_orders.get((naming, names), ""), row["sequence"])
        for c in columns:
            has_digits = "int" in (c.type or "") and VALUES[c.name].isdigit()
            high, digits = (int(VALUES[c.name]), 1) if has_digits else (0, 0)
            what = ColumnEvidence(
                frozenset([c.type or ""]), frozenset([c.declared or ""]), digits=digits, high=high
            )
            seen[naming, c.name] = seen.get((naming, c.name), ColumnEvidence()) | what
    keyed = max(
        (row for row in changes if row["keys"]), key=lambda row: (row["sequence"], row["keys"]), default=None
    )
    top = past.sequence or ""
    seen_keys: dict[tuple[int, tuple[str, ...]], str] = {}
    for row in sorted((row for row in changes if row["keys"]), key=lambda row: row["sequence"], reverse=True):
        seen_keys[sum(at <= row["sequence"] for at, _ in lineage.column_changes), tuple(row["keys"])] = row[
            "sequence"
        ]
    return Profile(
        rows=len(changes),
        min_sequence=min(row["sequence"] for row in changes),
        max_sequence=max(row["sequence"] for row in changes),
        keys=tuple(keyed["keys"]) if keyed else None,
        keys_naming=sum(at <= keyed["sequence"] for at, _ in lineage.column_changes) if keyed else 0,
        keys_sequence=keyed["sequence"] if keyed else "",
        seen_keys=seen_keys,
        has_key_changes=len({tuple(row["keys"]) for row in changes if row["keys"]}) > 1,
        column_orders=tuple(
            ColumnOrder(naming, high, names) for (naming, names), high in sorted(column_orders.items())
        ),
        evidence=seen,
        ops={"insert": sum(row["batch"] > past.batch for row in changes)},
        additions=len(changes),
        late=sum(row["batch"] > past.batch and row["sequence"] <= top for row in changes),
    )


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gold.planning.plan, "profile_rows", shown)


class Bench:
    """A table's silver rows, batch by batch, and the plans that they lead to."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark, self.lake = spark, Lakehouse(str(folder))
        self.nothing = TableState("feed", ORDERS, State.ACTIVE)

    def inserts(self, rows: Sequence[tuple[Any, ...]], batch: int) -> Iterator[tuple[Any, ...]]:
        """Inserts; `rows` are schema, keys and sequence."""
        for schema, keys, at in rows:
            image = {c.name: VALUES[c.name] for c in SCHEMAS[schema]}
            yield (
                "feed",
                "shop",
                None,
                "orders",
                "row",
                batch,
                "insert",
                at,
                None,
                keys,
                None,
                image,
                False,
                schema,
            )

    def plan(self, *rows: tuple[Any, ...], settings: TableSettings | None = None,
             column_changes: Sequence[tuple[str, ColumnAction]] = (),
             state: TableState | None = None, past: Sequence[tuple[Any, ...]] = (),
             **more: Any) -> Plan | None:  # fmt: skip
        """The plan for `rows` in the batch after the state's, with the rows `past` in batch 0."""
        batch = state.batch + 1 if state else 0
        changes = [*self.inserts(past, 0), *self.inserts(rows, batch)]
        truncates = more.pop("truncates", {})
        lineage = Lineage(
            ORDERS,
            (Segment(ORDERS, more.pop("start", ""), None),),
            tuple(column_changes),
            tuple((s, f"c{s}") for s in truncates),
            keys=more.pop("keys", ()),
            created=more.pop("created", ()),
        )
        task = task_of(
            lineage,
            settings or TableSettings(),
            state=state or self.nothing,
            top=batch,
            truncate_times=truncates,
        )
        frame = self.spark.createDataFrame(changes, ROW)
        planned = plan_to_read if more.pop("is_read_only", False) else make_plan
        return planned(self.spark, self.lake, TableChanges(lambda: frame), task, SCHEMAS)

    def kept(self, plan: Plan | None, *, is_there: bool = True) -> TableState:
        """The state as it is after a plan was carried out."""
        assert plan is not None
        path = Path(self.lake.location("gold/" + folder_of(plan.task)))
        if is_there:
            create_log(path)
        return replace(
            plan.task.state, replica=str(path), keys=plan.layout.keys, columns=plan.layout.columns,
            lineage=plan.digest,
            batch=plan.task.top, sequence=plan.profile.max_sequence, profile=plan.profile,
        )  # fmt: skip


def create_log(table: Path) -> None:
    """Makes `table` look like a Delta table with one commit."""
    (table / "_delta_log").mkdir(parents=True, exist_ok=True)
    (table / "_delta_log" / f"{0:020}.json").touch()


def task_of(lineage: Lineage, settings: TableSettings, **more: Any) -> Task:
    """A task; fields that these tests do not speak of are empty."""
    empty = {
        "state": TableState("feed", ORDERS, State.ACTIVE),
        "top": 0,
        "newest": 0,
        "waiting_rows": 0,
        "rows": 0,
    }
    given = {**empty, **more}
    return Task(**{name: value for name, value in given.items() if name in Task.__dataclass_fields__},
                source="feed", lineage=lineage, settings=settings)  # fmt: skip


@pytest.fixture
def bench(spark: SparkSession, tmp_path: Path) -> Bench:
    return Bench(spark, tmp_path)


PAST = [("id_name", ["id"], "1")]


@pytest.fixture
def first(bench: Bench) -> tuple[Bench, TableState]:
    """A replica of one row with the columns id and name."""
    return bench, bench.kept(bench.plan(*PAST))


def layout(plan: Plan | None) -> tuple[str | None, tuple[str, ...], Mapping[str, str]]:
    assert plan is not None
    return plan.rebuild and str(plan.rebuild), plan.layout.keys, {c.name: c.type for c in plan.layout.columns}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("feed", "configured", "expected"),
    [
        (["id"], None, ("id",)),
        (["id"], ("name",), ("id",)),
        (["name", "id"], ("id",), ("name", "id")),
        (None, ("name",), ("name",)),
        (None, ("name", "id"), ("name", "id")),
        (None, None, ()),
    ],
)
def test_the_feeds_key_counts_and_the_configured_one_where_it_names_none(
    bench: Bench, feed: list[str] | None, configured: tuple[str, ...] | None, expected: tuple[str, ...]
) -> None:
    found = bench.plan(("id_name", feed, "1"), settings=TableSettings(keys=configured))
    assert layout(found) == ("new table", expected, {"id": "int", "name": "string"})
    assert found is not None
    assert ("_cdc_op" in found.layout.system) is (expected == ())


def test_a_change_that_names_no_key_does_not_take_the_tables_key_away(bench: Bench) -> None:
    assert layout(bench.plan(("id_name", ["id"], "1"), ("id_name", None, "2")))[1] == ("id",)


def test_the_newest_key_counts(bench: Bench) -> None:
    assert layout(bench.plan(("id_name", ["name"], "2"), ("id_name", ["id"], "1")))[1] == ("name",)


def test_a_key_that_was_renamed_is_the_key_under_its_new_name(bench: Bench) -> None:
    found = bench.plan(("id_name", ["name"], "1"), column_changes=[("2", RenameColumn("name", "title"))])
    assert layout(found) == ("new table", ("title",), {"id": "int", "title": "string"})


def test_a_configured_key_that_no_row_has_is_refused(bench: Bench) -> None:
    with pytest.raises(MainstemError) as caught:
        bench.plan(("id_name", None, "1"), settings=TableSettings(keys=("idd",)))
    assert caught.value.condition == "KEY_COLUMN_MISSING"
    assert "id, name" in str(caught.value)


def test_a_tracked_column_that_was_renamed_is_tracked_under_its_new_name(bench: Bench) -> None:
    settings = TableSettings(history=True, track=("name", "id"))
    rename = [("2", RenameColumn("name", "title"))]
    found = bench.plan(("id_name", ["id"], "1"), settings=settings, column_changes=rename)
    assert found is not None
    assert found.track == ("title", "id")


@pytest.mark.parametrize(
    ("track", "column_changes", "policy"),
    [
        ("nmae", [], SchemaPolicy.LENIENT),
        ("name", [("2", DropColumn("name"))], SchemaPolicy.EVOLVE),
    ],
    ids=["misspelled", "dropped"],
)
def test_a_tracked_column_that_the_table_does_not_have_is_refused(
    bench: Bench, track: str, column_changes: Sequence[tuple[str, ColumnAction]], policy: SchemaPolicy
) -> None:
    settings = TableSettings(history=True, track=(track,), schema_policy=policy)
    with pytest.raises(MainstemError) as caught:
        bench.plan(("id_name_city", ["id"], "1"), settings=settings, column_changes=column_changes)
    assert caught.value.condition == "TRACKED_COLUMN_MISSING"
    assert repr(track) in str(caught.value)
    assert "city, id" in str(caught.value)


def test_columns_that_differ_by_case_are_refused(bench: Bench) -> None:
    with pytest.raises(MainstemError) as caught:
        bench.plan(("twins", ["id"], "1"))
    assert caught.value.condition == "COLUMNS_DIFFER_BY_CASE"
    assert "ignore" not in caught.value.action
    kept = replace(bench.nothing, replica="gold/shop/orders", keys=("id",))
    with pytest.raises(MainstemError, match="schema_policy: ignore"):
        bench.plan(("twins", ["id"], "1"), state=kept)


def test_columns_of_a_key_that_differ_by_case_are_not_left_out(bench: Bench) -> None:
    kept = replace(bench.nothing, replica="gold/shop/orders", keys=("NAME",))
    with pytest.raises(MainstemError) as caught:
        bench.plan(("twins", ["id"], "1"), state=kept)
    assert "ignore" not in caught.value.action


def test_nothing_is_planned_before_a_column_is_known(bench: Bench) -> None:
    assert bench.plan() is None


FAIL = TableSettings(schema_policy=SchemaPolicy.FAIL)
ADD_NOTE = AddColumn("note", "string", "text")
CREATED = (AddColumn("ID", "int", "int"), AddColumn("name", "string", "text"))
ID_AND_NAME = (AddColumn("id", "int", "int"), CREATED[1])
ID_IS_KEY = (("2", ("id",)),)


def test_a_table_that_statements_alone_tell_of_has_no_replica_before_its_first_row(bench: Bench) -> None:
    add = [("3", ADD_NOTE)]
    assert bench.plan(column_changes=add) is None
    assert bench.plan(column_changes=add, created=CREATED, keys=ID_IS_KEY) is None


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        ([], {"ID": "int", "name": "string"}),
        ([ADD_NOTE], {"ID": "int", "name": "string", "note": "string"}),
        ([AddColumn("size", "int", "int", after="id")], {"ID": "int", "size": "int", "name": "string"}),
        ([RenameColumn("Name", "title")], {"ID": "int", "title": "string"}),
        ([DropColumn("name"), ADD_NOTE], {"ID": "int", "note": "string"}),
        ([ChangeType("name", "int", "int")], {"ID": "int", "name": "int"}),
    ],
    ids=["none", "added", "added in between", "renamed", "dropped", "another type"],
)
def test_a_table_that_is_created_again_has_the_columns_and_the_key_of_its_statements(
    first: tuple[Bench, TableState], steps: list[ColumnAction], expected: dict[str, str]
) -> None:
    bench, state = first
    told = {"start": "2", "created": CREATED, "keys": ID_IS_KEY}
    changes = [("3", step) for step in steps]
    found = bench.plan(state=state, column_changes=changes, **told)
    assert layout(found) == ("a schema change", ("ID",), expected)
    assert list(layout(found)[2]) == list(expected)
    again = bench.plan(state=bench.kept(found), column_changes=changes, **told)
    assert layout(again) == ("its first rows", ("ID",), expected)


def test_a_table_that_is_created_again_without_columns_has_the_former_ones_as_later_statements_change_them(
    first: tuple[Bench, TableState],
) -> None:
    bench, state = first
    steps: list[tuple[str, ColumnAction]] = [("3", ADD_NOTE), ("4", RenameColumn("ID", "uid"))]
    found = bench.plan(state=state, start="2", column_changes=steps)
    assert layout(found)[1:] == (("uid",), {"uid": "int", "name": "string", "note": "string"})
    steps.append(("5", RenameColumn("name", "title")))
    found = bench.plan(state=bench.kept(found), start="2", column_changes=steps)
    assert layout(found)[1:] == (("uid",), {"uid": "int", "title": "string", "note": "string"})


def test_the_policy_fail_takes_the_first_rows_of_a_table_that_was_created_again(
    first: tuple[Bench, TableState],
) -> None:
    """Rows may have other types than the statements that made the empty replica."""
    bench, state = first
    empty = bench.kept(bench.plan(state=state, start="2", created=(AddColumn("id", "bigint", "bigint"),)))
    assert layout(bench.plan(("id_name", ["id"], "4"), state=empty, settings=FAIL)) == (
        "its first rows",
        ("id",),
        {"id": "int", "name": "string"},
    )


def test_a_soft_delete_has_its_mark(bench: Bench) -> None:
    found = bench.plan(("id_name", ["id"], "1"), settings=TableSettings(deletes="soft"))  # type: ignore[arg-type]
    assert found is not None
    assert "_cdc_deleted" in found.layout.system


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        (("id_name", ["id"], "2"), (None, {"id": "int", "name": "string"})),
        (("id_name_city", ["id"], "2"), (None, {"id": "int", "name": "string", "city": "string"})),
        (("id_only", ["id"], "2"), (None, {"id": "int", "name": "string"})),
        (("id_name", ["name"], "2"), ("other key columns", {"id": "int", "name": "string"})),
        (("wide_id", ["id"], "2"), ("id changes from int to bigint", {"id": "bigint", "name": "string"})),
        (("amount", ["id"], "2"), (None, {"id": "int", "amount": "int", "name": "string"})),
    ],
    ids=[
        "the same",
        "a new column",
        "a column less",
        "another key",
        "a wider key",
        "a new column in between",
    ],
)
def test_growth_is_in_place_and_the_rest_a_rebuild(
    first: tuple[Bench, TableState], row: tuple[Any, ...], expected: tuple[str | None, dict[str, str]]
) -> None:
    bench, state = first
    rebuild, _, columns = layout(bench.plan(row, state=state, past=PAST))
    assert (rebuild, columns) == expected


@pytest.mark.parametrize(
    ("later", "rebuild", "kind"),
    [
        ("large_amount", None, "bigint"),
        ("exact_amount", None, "decimal(12,2)"),
        ("number_name", None, "int"),
    ],
)
def test_types_that_delta_widens_stay_in_place(
    bench: Bench, later: str, rebuild: str | None, kind: str
) -> None:
    state = bench.kept(bench.plan(("amount", ["id"], "1")))
    found, _, columns = layout(bench.plan((later, ["id"], "2"), state=state, past=[("amount", ["id"], "1")]))
    assert (found, columns["name" if later == "number_name" else "amount"]) == (rebuild, kind)


def test_a_type_that_delta_cannot_widen_is_a_rebuild_with_the_type_of_both(
    first: tuple[Bench, TableState],
) -> None:
    bench, state = first
    assert layout(bench.plan(("number_name", ["id"], "2"), state=state, past=PAST))[2]["name"] == "string"
    numbers = bench.kept(bench.plan(("number_name", ["id"], "1")))
    rebuild, _, columns = layout(
        bench.plan(("id_name", ["id"], "2"), state=numbers, past=[("number_name", ["id"], "1")])
    )
    assert (rebuild, columns["name"]) == ("name changes from int to string", "string")


def test_a_type_in_the_configuration_stands_above_the_feeds(bench: Bench) -> None:
    rule = TableSettings(columns={"amount": ColumnRule(type="decimal(12,2)")})
    assert layout(bench.plan(("amount", ["id"], "1"), settings=rule))[2] == {
        "id": "int",
        "amount": "decimal(12,2)",
    }


ADD_CITY = AddColumn("city", "string", "text")


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        ([("2", ADD_CITY)], (None, ["id", "name", "city"])),
        ([("0", ADD_CITY)], ("a schema change", ["id", "name", "city"])),
        (
            [("2", AddColumn("city", "string", "text", default="Faro"))],
            ("a schema change", ["id", "name", "city"]),
        ),
        ([("2", RenameColumn("name", "title"))], ("a schema change", ["id", "title"])),
        ([("2", DropColumn("name"))], ("a schema change", ["id", "name"])),
        ([("2", ChangeType("name", "string", "text"))], (None, ["id", "name"])),
        ([("2", ChangeType("name", "string", "text", first=True))], ("a schema change", ["id", "name"])),
    ],
    ids=[
        "an added column",
        "one added behind applied rows",
        "one with a default",
        "a rename",
        "a drop",
        "another type",
        "another place",
    ],
)
def test_statements_lead_to_a_rebuild_unless_they_only_add(
    first: tuple[Bench, TableState],
    steps: list[tuple[str, ColumnAction]],
    expected: tuple[str | None, list[str]],
) -> None:
    bench, state = first
    rebuild, _, columns = layout(bench.plan(state=state, past=PAST, column_changes=steps))
    assert (rebuild, list(columns)) == expected


def test_a_statement_that_is_known_is_no_schema_change(bench: Bench) -> None:
    steps = [("2", RenameColumn("name", "title"))]
    state = bench.kept(bench.plan(("id_name", ["id"], "1"), column_changes=steps))
    assert layout(bench.plan(("id_title", ["id"], "3"), column_changes=steps, state=state, past=PAST)) == (
        None,
        ("id",),
        {"id": "int", "title": "string"},
    )


def test_a_replica_that_is_gone_or_was_dropped_is_made_anew(bench: Bench) -> None:
    state = bench.kept(bench.plan(("id_name", ["id"], "1")), is_there=False)
    assert layout(bench.plan(("id_name", ["id"], "2"), state=state, past=PAST))[0] == "its replica is gone"
    assert (
        layout(bench.plan(("id_name", ["id"], "2"), state=replace(state, state=State.DROPPED)))[0]
        == "new table"
    )


def test_a_history_asks_for_a_rebuild_where_there_is_none_or_a_truncate_closes_versions(
    first: tuple[Bench, TableState],
) -> None:
    bench, state = first
    settings = TableSettings(history=True)
    assert (
        layout(bench.plan(("id_name", ["id"], "2"), state=state, past=PAST, settings=settings))[0]
        == "its history is to be made"
    )
    state = replace(state, history=bench.lake.location("gold/shop/orders__history"))
    assert (
        layout(bench.plan(("id_name", ["id"], "2"), state=state, past=PAST, settings=settings))[0]
        == "its history is gone"
    )
    create_log(Path(bench.lake.location("gold/shop/orders__history")))
    assert layout(bench.plan(("id_name", ["id"], "2"), state=state, past=PAST, settings=settings))[0] is None
    assert (
        layout(bench.plan(state=state, past=PAST, settings=settings, truncates={"2": (None, 1)}))[0]
        == "a truncate"
    )


def test_a_truncate_is_merged_unless_it_is_late_among_partial_images(first: tuple[Bench, TableState]) -> None:
    bench, state = first
    assert layout(bench.plan(state=state, past=PAST, truncates={"2": (None, 1)}))[0] is None
    assert layout(bench.plan(state=state, past=PAST, truncates={"0": (None, 1)}))[0] is None
    partial = replace(state, profile=replace(state.profile, has_partials=True))
    assert layout(bench.plan(state=partial, past=PAST, truncates={"0": (None, 1)}))[0] == "a late truncate"
    assert layout(bench.plan(state=partial, past=PAST, truncates={"0": (None, 0)}))[0] is None


def test_a_replica_is_made_anew_at_another_place_and_under_other_settings(
    first: tuple[Bench, TableState],
) -> None:
    bench, state = first
    elsewhere = TableSettings(replica="`my.shop`.orders")
    assert layout(bench.plan(state=state, past=PAST, settings=elsewhere))[0] == "another place"
    known = replace(state, built_with=settings_fingerprint(TableSettings()))
    assert layout(bench.plan(state=known, past=PAST))[0] is None
    assert (
        layout(bench.plan(state=known, past=PAST, settings=TableSettings(deletes=Deletes.SOFT)))[0]
        == "other settings"
    )
    assert layout(bench.plan(state=replace(state, built_with=FAILED_REBUILD), past=PAST))[0] == "asked for"


def test_names_with_dots_in_replica_are_one_part() -> None:
    task = task_of(Lineage(ORDERS, (Segment(ORDERS, "", None),)), TableSettings(replica="`my.shop`.orders"))
    assert folder_of(task) == "my~2Eshop/orders"


@pytest.mark.parametrize("policy", list(SchemaPolicy))
@pytest.mark.parametrize(
    ("steps", "unclear", "refusing"),
    [
        ([], None, []),
        ([("1", ADD_CITY)], None, ["fail"]),
        ([("1", DropColumn("name"))], None, ["fail"]),
        ([], "cannot be read", ["fail"]),
        ([], "erase_without_statement", list(SchemaPolicy)),
    ],
)
def test_statements_are_refused_as_the_policy_says(
    policy: SchemaPolicy, steps: list[tuple[str, ColumnAction]], unclear: str | None, refusing: list[str]
) -> None:
    reasons = (("9", unclear),) if unclear else ()
    lineage = Lineage(ORDERS, (Segment(ORDERS, "", None),), tuple(steps), not_understood=reasons)
    state = TableState("feed", ORDERS, State.ACTIVE, columns=(TableColumn("id", "int", None),), batch=1)
    told = {"1": 2, "9": 2}
    task = task_of(lineage, TableSettings(schema_policy=policy), state=state, statement_batches=told)
    if policy not in refusing:
        refuse_statements(task)
        return
    with pytest.raises(MainstemError) as caught:
        refuse_statements(task)
    is_erased = unclear == "erase_without_statement"
    assert caught.value.condition == ("ERASE_UNCLEAR" if is_erased else "SCHEMA_CHANGE_REFUSED")


def test_a_table_that_is_created_again_is_no_longer_parked_by_an_erasure() -> None:
    def told(at: str, action: Action) -> Statement:
        return Statement(at, at, 1, ORDERS, (action,))

    steps = [told("2", Unsupported(ERASE_WITHOUT_STATEMENT)), told("4", DropTable())]
    for more, is_refused in (([], True), ([told("5", CreateTable())], False)):
        lineage = trace_tables([*steps, *more], {ORDERS: "3"})[ORDERS]
        with pytest.raises(MainstemError, match="ERASE_UNCLEAR") if is_refused else nullcontext():
            refuse_statements(task_of(lineage, TableSettings()))


def test_the_policy_fail_refuses_only_what_the_replica_has_not_applied() -> None:
    lineage = Lineage(
        ORDERS, (Segment(ORDERS, "", None),), (("1", ADD_CITY),), not_understood=(("", "has no position"),)
    )
    columns = (TableColumn("id", "int", None),)

    def refuses(batch: int, digest: str, columns: tuple[TableColumn, ...] = columns) -> bool:
        state = TableState("feed", ORDERS, State.ACTIVE, columns=columns, lineage=digest, batch=batch)
        settings = TableSettings(schema_policy=SchemaPolicy.FAIL)
        try:
            refuse_statements(task_of(lineage, settings, state=state, statement_batches={"": 2, "1": 1}))
        except MainstemError:
            return True
        return False

    assert not refuses(-1, "", columns=())
    assert not refuses(2, lineage_digest(lineage))
    assert refuses(1, lineage_digest(lineage))
    assert refuses(2, lineage_digest(replace(lineage, column_changes=())))


def test_a_dropped_column_stays_and_goes_only_under_evolve(first: tuple[Bench, TableState]) -> None:
    bench, state = first
    steps = [("2", DropColumn("name"))]
    lenient = layout(bench.plan(("id_only", ["id"], "3"), state=state, past=PAST, column_changes=steps))
    evolve = layout(
        bench.plan(
            ("id_only", ["id"], "3"),
            state=state,
            past=PAST,
            column_changes=steps,
            settings=TableSettings(schema_policy=SchemaPolicy.EVOLVE),
        )
    )
    assert (lenient[2], evolve[2]) == ({"id": "int", "name": "string"}, {"id": "int"})


def test_the_policy_ignore_freezes_the_columns(first: tuple[Bench, TableState]) -> None:
    bench, state = first
    found = bench.plan(
        ("id_name_city", ["id"], "2"),
        state=state,
        past=PAST,
        settings=TableSettings(schema_policy=SchemaPolicy.IGNORE),
    )
    assert layout(found)[2] == {"id": "int", "name": "string"}
    assert found is not None
    assert found.left_out == ("city",)


def test_a_type_of_the_configuration_applies_under_the_policy_ignore(first: tuple[Bench, TableState]) -> None:
    bench, state = first
    columns = {"id": ColumnRule(type="bigint"), "city": ColumnRule(type="string")}
    settings = TableSettings(schema_policy=SchemaPolicy.IGNORE, columns=columns)
    found = bench.plan(("id_name_city", ["id"], "2"), state=state, past=PAST, settings=settings)
    assert layout(found)[2] == {"id": "bigint", "name": "string"}


def test_a_column_that_a_late_statement_renames_stays_under_the_policy_ignore(bench: Bench) -> None:
    settings = TableSettings(schema_policy=SchemaPolicy.IGNORE)
    past, add = [*PAST, ("id_name_city", ["id"], "6")], ("5", ADD_CITY)
    state = bench.kept(bench.plan(*past, column_changes=[add], settings=settings))
    rename = ("3", RenameColumn("name", "title"))
    found = bench.plan(state=state, past=past, column_changes=[rename, add], settings=settings)
    assert set(layout(found)[2]) >= {"id", "title", "city"}


@pytest.mark.parametrize(
    ("feed", "configured", "who"),
    [(["city"], None, "the feed names"), (None, ("city",), "tables.keys names")],
)
def test_a_key_column_that_the_policy_ignore_leaves_out_is_refused(
    bench: Bench, feed: list[str] | None, configured: tuple[str, ...] | None, who: str
) -> None:
    settings = TableSettings(schema_policy=SchemaPolicy.IGNORE, keys=configured)
    past = [("id_name", None if configured else ["id"], "1")]
    state = bench.kept(bench.plan(*past))
    with pytest.raises(MainstemError) as caught:
        bench.plan(("id_name_city", feed, "2"), state=state, past=past, settings=settings)
    assert caught.value.condition == "KEY_COLUMN_MISSING"
    assert all(part in str(caught.value) for part in ("'city'", who, "schema_policy: ignore", "lenient"))


def test_a_key_of_the_feed_that_no_row_has_is_refused(bench: Bench) -> None:
    with pytest.raises(MainstemError) as caught:
        bench.plan(("id_name", ["uid"], "1"))
    assert caught.value.condition == "KEY_COLUMN_MISSING"
    assert "'uid'" in str(caught.value)
    assert "id, name" in str(caught.value)


def test_the_policy_fail_refuses_a_column_that_no_statement_announced(
    first: tuple[Bench, TableState],
) -> None:
    bench, state = first
    with pytest.raises(MainstemError):
        bench.plan(
            ("id_name_city", ["id"], "2"),
            state=state,
            past=PAST,
            settings=TableSettings(schema_policy=SchemaPolicy.FAIL),
        )


@pytest.mark.parametrize(
    ("rows", "statements", "found"),
    [
        ([], {"keys": [("2", ())]}, "no key instead of the key (id)"),
        ([], {"keys": [("2", ("name",))]}, "the key (name) instead of the key (id)"),
        ([("id_name", ["name"], "2")], {}, "the key (name) instead of the key (id)"),
        ([], {"start": "2", "created": ID_AND_NAME, "keys": [("2", ("name",))]}, "the key (name)"),
        ([], {"start": "2", "created": (*ID_AND_NAME, ADD_NOTE)}, "column 'note'"),
    ],
    ids=["dropped", "another", "another in rows", "another after a new creation", "a new column after it"],
)
def test_the_policy_fail_refuses_another_key_and_a_table_created_with_other_columns(
    first: tuple[Bench, TableState], rows: list[tuple[Any, ...]], statements: dict[str, Any], found: str
) -> None:
    bench, state = first
    past = [] if "start" in statements else PAST
    with pytest.raises(MainstemError) as caught:
        bench.plan(*rows, state=state, past=past, settings=FAIL, **statements)
    assert caught.value.condition == "SCHEMA_CHANGE_REFUSED"
    assert found in str(caught.value)


def test_the_policy_fail_allows_the_same_key_and_one_of_the_configuration(bench: Bench) -> None:
    state = bench.kept(bench.plan(("id_name", None, "1"), settings=replace(FAIL, keys=("id",))))
    past = [("id_name", None, "1")]
    found = bench.plan(state=state, past=past, settings=replace(FAIL, keys=("name",)))
    assert layout(found)[:2] == ("other key columns", ("name",))
    state = bench.kept(bench.plan(*PAST))
    assert layout(bench.plan(state=state, past=PAST, settings=FAIL, keys=[("2", ("ID",))]))[1] == ("id",)
    again = bench.plan(state=state, settings=FAIL, start="2", created=CREATED, keys=ID_IS_KEY)
    assert layout(again)[1] == ("ID",)


@pytest.mark.slow
def test_the_quick_profile_of_these_tests_is_the_measured_one(bench: Bench) -> None:
    rows = [
        ("id_name", ["id"], "1"),
        ("id_name", None, "4"),
        ("wide_id", ["id"], "3"),
        ("amount", ["name"], "0"),
    ]
    frame = bench.spark.createDataFrame([*bench.inserts(rows[:1], 0), *bench.inserts(rows[1:], 1)], ROW)
    lineage = Lineage(ORDERS, (Segment(ORDERS, "", None),), (("2", ADD_CITY), ("4", DropColumn("city"))))
    for past in (Progress(), Progress(0, "1")):
        assert profile_rows(frame, lineage, SCHEMAS, past) == shown(frame, lineage, SCHEMAS, past)


def test_nulls_under_a_name_that_changed_hands_take_no_kind_from_the_other_column(bench: Bench) -> None:
    schemas = {
        "undeclared": (
            SchemaColumn("id", None, None, "number"),
            SchemaColumn("note", None, None, "null,number"),
        )
    }
    values = [("1", None), ("4", "7"), ("5", None)]
    rows = [
        (
            "feed",
            "shop",
            None,
            "orders",
            "row",
            0,
            "insert",
            at,
            None,
            ["id"],
            None,
            {"id": "1", "note": note},
            False,
            "undeclared",
        )
        for at, note in values
    ]
    steps = (("2", DropColumn("note")), ("3", AddColumn("note", None, "int")))
    profile = profile_rows(
        bench.spark.createDataFrame(rows, ROW), Lineage(ORDERS, (Segment(ORDERS, "", None),), steps), schemas
    )
    assert {naming: what.tokens for (naming, name), what in profile.evidence.items() if name == "note"} == {
        0: {"null"},
        2: {"null", "number"},
    }


@pytest.mark.parametrize(
    ("policy", "order"),
    [
        (SchemaPolicy.LENIENT, ["name", "id"]),
        (SchemaPolicy.IGNORE, ["id", "name"]),
        (SchemaPolicy.FAIL, ["id", "name"]),
    ],
)
def test_columns_are_moved_only_under_policies_that_follow_the_source(
    first: tuple[Bench, TableState], policy: SchemaPolicy, order: list[str]
) -> None:
    """A moved column changes no data: `fail` does not park the table for it."""
    bench, state = first
    settings = TableSettings(schema_policy=policy)
    found = bench.plan(("name_id", ["id"], "2"), state=state, past=PAST, settings=settings)
    assert list(layout(found)[2]) == order


def test_a_default_of_a_boolean_is_as_rows_write_it(first: tuple[Bench, TableState]) -> None:
    bench, state = first
    steps = [("2", AddColumn("flag", "tinyint", "bit(1)", default="1"))]
    found = bench.plan(("flag", ["id"], "3"), state=state, past=PAST, column_changes=steps)
    assert found is not None
    assert layout(found)[2]["flag"] == "boolean"
    assert [naming.defaults for naming in found.namings] == [{"flag": "true"}, {}]
    steps = [("2", AddColumn("amount", "int", "int", default="1"))]
    found = bench.plan(("amount", ["id"], "3"), state=state, past=PAST, column_changes=steps)
    assert found is not None
    assert found.namings[0].defaults == {"amount": "1"}


@pytest.mark.parametrize(
    ("before", "schema", "keys", "settings"),
    [
        ("id_name", "id_name_city", ["id"], FAIL),
        ("id_name", "twins", ["id"], TableSettings()),
        ("id_name", "id_name", ["uid"], TableSettings()),
        ("id_name", "id_name", ["id"], TableSettings(track=("city",))),
        ("number_name", "id_name", ["id"], TableSettings()),
    ],
    ids=["policy fail", "differ by case", "no key column", "no tracked column", "a large table"],
)
def test_what_parks_a_table_does_not_keep_it_from_being_read(
    bench: Bench,
    before: str,
    schema: str,
    keys: list[str],
    settings: TableSettings,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(gold.planning.rebuild, "MOST_CHANGES", -1)
    past = [(before, ["id"], "1")]
    given: dict[str, Any] = {"state": bench.kept(bench.plan(*past)), "past": past, "settings": settings}
    with pytest.raises(MainstemError):
        bench.plan((schema, keys, "2"), **given)
    found = bench.plan((schema, keys, "2"), **given, is_read_only=True)
    assert found is not None
    assert found.layout.keys == ("id",)
    assert {c.name for c in SCHEMAS[schema]} <= {c.name for c in found.layout.columns}
