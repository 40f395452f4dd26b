"""What can be many in gold makes no plan longer: truncates, statements, names of a table, keys;
columns only linearly.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from framework.config.tables import Deletes, SchemaPolicy, TableSettings
from framework.contracts.ddl_actions import AddColumn, RenameColumn, TableName
from gold.changes.effects import effects, in_any_segment, lookup, with_current_names
from gold.changes.merge_policy import MergePolicy
from gold.changes.profile import Profile
from gold.planning.plan import Plan
from gold.planning.table_state import State, TableState
from gold.planning.task import Task
from gold.schema.columns import TableColumn, column_namings
from gold.schema.layout import SYSTEM_COLUMNS, VALIDITY_COLUMNS, Layout
from gold.schema.lineage import ColumnAction, Lineage, Segment
from gold.writing.collisions import met_rows
from gold.writing.history import stale_versions, versions
from gold.writing.replica import newest_states, typed_rows
from tests.plans import is_constant, plan_text, sizes

START = datetime(2024, 3, 1, tzinfo=UTC)
LAYOUT = Layout(
    (TableColumn("id", "bigint", None), TableColumn("n", "string", None)),
    ("id",),
    {**SYSTEM_COLUMNS, **VALIDITY_COLUMNS},
)
SCHEMA = (
    "sequence string, event_time timestamp, change_id string, transaction_id string, op string, partial "
    "boolean, half string, "
    "before map<string,string>, after map<string,string>"
)


def at(place: int) -> str:
    """A position that sorts."""
    return f"011.{place:06d}"


def change(place: int, key: int, moment: int, *, is_delete: bool = False) -> tuple[Any, ...]:
    image = {"id": str(key), "n": str(place)}
    op, before, after = ("delete", image, None) if is_delete else ("insert", None, image)
    return (at(place), START + timedelta(seconds=moment), f"c{place}", None, op, False, None, before, after)


def test_a_history_has_one_plan_for_any_number_of_truncates(spark: SparkSession) -> None:
    rows = spark.createDataFrame([], SCHEMA)
    found = sizes(
        lambda count: versions(rows, LAYOUT, Profile(), [(at(place), START) for place in range(count)], None)
    )
    assert is_constant(found)


def test_truncates_close_the_versions_before_them_as_in_a_replay(spark: SparkSession) -> None:
    """300 truncates, and keys that come back after none, one or many of them,
    with times that run backwards.
    """
    draw, changes, effects = Random(11), [], {}
    truncates = [(place * 10 + 5, draw.randint(0, 4_000)) for place in range(300)]
    for place in range(3_000):
        if place % 10 != 5 and draw.random() < 0.5:
            key, moment, is_delete = draw.randint(0, 40) ** 2, draw.randint(0, 4_000), draw.random() < 0.2
            changes.append(change(place, key, moment, is_delete=is_delete))
            effects.setdefault(key, []).append((place, moment, not is_delete))
    wanted = sorted(version for key, mine in effects.items() for version in replayed(key, mine, truncates))
    floors = [(at(place), START + timedelta(seconds=moment)) for place, moment in truncates]
    rows = versions(spark.createDataFrame(changes, SCHEMA), LAYOUT, Profile(), floors, None).collect()
    found = sorted(
        (
            r["k0"],
            r["_cdc_sequence"],
            *map(seconds, (r["_cdc_valid_from"], r["_cdc_valid_to"])),
            r["_cdc_is_current"],
        )
        for r in rows
    )
    assert found == wanted


def seconds(moment: datetime | None) -> int:
    return -1 if moment is None else int(moment.timestamp() - START.timestamp())


def replayed(
    key: int, effects: list[tuple[int, int, bool]], truncates: list[tuple[int, int]]
) -> list[tuple[int, str, int, int, bool]]:
    """The versions of a key: every truncate behind its first effect ends what stands."""
    events = sorted(
        [*effects, *((place, moment, False) for place, moment in truncates if place > effects[0][0])]
    )
    found, now = [], -1
    for number, (place, moment, is_upsert) in enumerate(events):
        now = max(now, moment)
        if is_upsert:
            following = events[number + 1] if number + 1 < len(events) else None
            found.append(
                (key, at(place), now, max(now, following[1]) if following else -1, following is None)
            )
    return found


def test_old_truncates_make_no_plan_of_collisions_longer(spark: SparkSession) -> None:
    rows = spark.createDataFrame([], SCHEMA)
    stored = spark.createDataFrame(
        [], "id bigint, n string, _cdc_sequence string, _cdc_event_time timestamp, _cdc_change_id string"
    )
    table = TableName("db", None, "t")
    batch = Profile(rows=1, min_sequence=at(2_000), max_sequence=at(2_000), additions=1)

    def planned(count: int) -> DataFrame:
        lineage = Lineage(table, (), truncates=tuple((at(place), f"t{place}") for place in range(count)))
        state = TableState("feed", table, State.ACTIVE, sequence=at(1_999))
        task = Task("feed", lineage, state, TableSettings(), 1, 1, 1)
        plan = Plan(task, LAYOUT, LAYOUT, batch, batch, (), None, "", {}, 0)
        return met_rows(rows, rows, stored, plan)

    assert is_constant(sizes(planned))


def test_many_touched_keys_are_not_sent_to_every_task(spark: SparkSession) -> None:
    frame = versions(spark.createDataFrame([], SCHEMA), LAYOUT, Profile(), [], None)
    stored = spark.createDataFrame([], "id bigint, _cdc_sequence string")
    touched = spark.createDataFrame([], "k0 bigint")
    assert "broadcast" in plan_text(stale_versions(frame, touched, stored, LAYOUT, are_few=True))
    assert "broadcast" not in plan_text(stale_versions(frame, touched, stored, LAYOUT, are_few=False))


def steps(count: int) -> tuple[tuple[str, ColumnAction], ...]:
    """So many statements: columns added with a default, renamed and dropped."""
    actions = [
        AddColumn(f"c{n}", "int", "int", default="7") if n % 2 else RenameColumn(f"c{n - 1}", f"d{n}")
        for n in range(count)
    ]
    return tuple((at(place), action) for place, action in enumerate(actions))


def test_statements_make_a_plan_longer_by_their_own_text_alone(spark: SparkSession) -> None:
    rows = spark.createDataFrame([], SCHEMA)

    def planned(count: int) -> DataFrame:
        lineage = Lineage(TableName("db", None, "t"), (), steps(count))
        return with_current_names(rows, lineage, column_namings(lineage, SchemaPolicy.LENIENT, ()))

    few, some, many = sizes(planned)
    assert many - some < 12 * (some - few)
    assert many < 1_500_000


def test_former_names_and_former_keys_of_a_table_are_looked_up(spark: SparkSession) -> None:
    """A test for each of them, one inside the other,
    is more than a thousand times as deep as Spark can read.
    """
    names = [TableName("db", None if n % 2 else "s", f"t,{n}:") for n in range(1_000)]
    segments = [Segment(name, at(n), at(n + 1)) for n, name in enumerate(names)]
    keys = [(n, ("id", f"k{n}")) for n in range(1_000)]
    rows = [
        ("feed", name.database, name.schema, name.table, at(n + moved), list(keys[n][1]))
        for n, name in enumerate(names)
        for moved in (0, 1)
    ]
    frame = spark.createDataFrame(
        rows,
        "source string, database string, schema string, `table` string, sequence string, keys array<string>",
    )
    mine = frame.where(in_any_segment(segments, "feed"))
    number = F.substring("sequence", 5, 6).cast("int")
    found = mine.select(
        lookup({key: 2 * place for place, key in enumerate(keys)}, number, F.col("keys")).alias("n")
    ).collect()
    assert sorted(row["n"] for row in found) == [2 * n for n in range(1_000)]


@pytest.mark.slow
def test_columns_and_key_columns_make_plans_longer_in_proportion(spark: SparkSession) -> None:
    rows = spark.createDataFrame([], SCHEMA)

    def layout(count: int, keys: int) -> Layout:
        columns = tuple(TableColumn(f"c{n}", "string", None) for n in range(count))
        return Layout(columns, tuple(column.name for column in columns[:keys]), dict(SYSTEM_COLUMNS))

    def merged(mine: Layout) -> DataFrame:
        rules = MergePolicy(Deletes.HARD, at(7), has_partials=True)
        states = newest_states(
            effects(rows, mine.key_columns), mine, Profile(has_partials=True, has_key_changes=True), rules
        )
        forced = states.withColumn("is_forced", F.lit(False))
        return typed_rows(forced, mine, "is_forced", are_marked=rules.has_partials)

    for planned in (lambda count: merged(layout(count, 1)), lambda count: merged(layout(count, count))):
        some, many = sizes(planned, (20, 160))
        assert many < 10 * some
