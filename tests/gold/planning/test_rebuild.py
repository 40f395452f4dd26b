"""What states store of a table's statements: texts that no release may change."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import pytest

from framework.config.tables import Deletes, TableSettings
from framework.contracts.ddl_actions import AddColumn, ChangeType, DropColumn, RenameColumn, TableName
from framework.errors import MainstemError
from gold.changes.profile import Profile
from gold.planning.rebuild import (
    BEGUN_REBUILD,
    FAILED_REBUILD,
    MOST_CHANGES,
    Rebuild,
    RebuildReason,
    begun_rebuilds,
    is_behind,
    lineage_digest,
    rebuild_for_layout,
    refuse_large,
    settings_fingerprint,
    settings_mismatch,
)
from gold.planning.table_state import State, TableState
from gold.planning.task import Task
from gold.schema.columns import TableColumn
from gold.schema.layout import SYSTEM_COLUMNS, Layout
from gold.schema.lineage import Lineage, Segment

TABLE, OLD_NAME = TableName("db", None, "t"), TableName("db", "s", "o")
CHANGES = (
    ("011.2", AddColumn("a", "int", "int(11)", default="1")),
    ("011.3", DropColumn("b")),
    ("011.4", RenameColumn("c", "d")),
    ("011.5", ChangeType("d", "bigint", "bigint")),
)


@pytest.mark.parametrize(
    ("lineage", "digest"),
    [
        (Lineage(TABLE, (Segment(TABLE, "", None),)), "0:4740b1e901fcebcbd071d49f"),
        (
            Lineage(
                TABLE,
                (Segment(OLD_NAME, "", "011.1"), Segment(TABLE, "011.1", None)),
                CHANGES,
                keys=(("011.6", ("id", "d")),),
            ),
            "4:a964827da0c51040b6dd25c2",
        ),
    ],
    ids=["no statement", "a rename and changes of columns"],
)
def test_a_stored_digest_stays_valid(lineage: Lineage, digest: str) -> None:
    """With another digest, the first run of a new release would rebuild every table."""
    assert lineage_digest(lineage) == digest


def test_a_stored_fingerprint_stays_valid() -> None:
    assert settings_fingerprint(TableSettings()) == '["hard", null, "lenient", {}]'


HARD, SOFT = TableSettings(), TableSettings(deletes=Deletes.SOFT)
BUILT = TableState(
    "feed",
    TABLE,
    State.ACTIVE,
    replica="/lake/gold/db/t",
    keys=("id",),
    profile=Profile(rows=1, keys=("id",)),
    built_with=settings_fingerprint(HARD),
)
WITHOUT_KEY = replace(BUILT, profile=Profile(rows=1))
"""Its feed names no key: the configuration has named it."""


def task_of(state: TableState, settings: TableSettings, *keys: str) -> Task:
    """A task of a table; `keys` are those that its CREATE statement declares."""
    stated = (("011.1", keys),) if keys else ()
    return Task("feed", Lineage(TABLE, (Segment(TABLE, "", None),), keys=stated), state, settings, 1, 1, 1)


@pytest.mark.parametrize(
    ("task", "is_marked"),
    [
        (task_of(BUILT, HARD), False),
        (task_of(BUILT, SOFT), True),
        (task_of(replace(BUILT, replica=None), SOFT), False),
        (task_of(replace(BUILT, built_with=FAILED_REBUILD), SOFT), False),
        (task_of(replace(BUILT, built_with=BEGUN_REBUILD), SOFT), False),
        (replace(task_of(BUILT, SOFT), rival="db.o of source feed"), False),
        (task_of(WITHOUT_KEY, replace(HARD, keys=("id",))), False),
        (task_of(WITHOUT_KEY, replace(HARD, keys=("id", "n"))), True),
        (task_of(WITHOUT_KEY, HARD), True),
        (task_of(BUILT, replace(HARD, keys=("id", "n"))), False),
        (task_of(WITHOUT_KEY, replace(HARD, keys=("id", "n")), "id"), False),
    ],
    ids=[
        "the same settings",
        "other settings",
        "no replica",
        "a requested rebuild failed",
        "marked already",
        "the place of another table",
        "the same configured key",
        "another configured key",
        "no configured key any more",
        "the rows name the key",
        "a statement names the key",
    ],
)
def test_a_table_is_marked_before_it_is_rebuilt_for_other_settings(task: Task, is_marked: bool) -> None:
    marked = list(begun_rebuilds([task]))
    assert marked == ([replace(task.state, built_with=BEGUN_REBUILD)] if is_marked else [])


@pytest.mark.parametrize(
    ("task", "is_work"),
    [
        (task_of(WITHOUT_KEY, replace(HARD, keys=("id",))), False),
        (task_of(WITHOUT_KEY, replace(HARD, keys=("id", "n"))), True),
        (task_of(WITHOUT_KEY, HARD), True),
        (task_of(replace(WITHOUT_KEY, keys=()), HARD), False),
        (task_of(replace(WITHOUT_KEY, keys=()), replace(HARD, keys=("id",))), True),
        (task_of(BUILT, replace(HARD, keys=("id", "n"))), False),
        (task_of(replace(WITHOUT_KEY, replica=None), HARD), False),
        (task_of(replace(WITHOUT_KEY, state=State.DROPPED), HARD), False),
        (task_of(WITHOUT_KEY, replace(HARD, exclude=True)), False),
    ],
    ids=[
        "the same key",
        "another key",
        "no key any more",
        "append-only as before",
        "the first key",
        "the feed names the key",
        "no replica",
        "dropped",
        "excluded",
    ],
)
def test_a_quiet_table_waits_for_a_run_once_its_configured_key_is_another(task: Task, is_work: bool) -> None:
    quiet = replace(task, state=replace(task.state, batch=task.newest))
    assert is_behind(quiet) is is_work


def test_a_begun_rebuild_is_repeated_when_the_settings_are_put_back() -> None:
    begun = replace(BUILT, built_with=BEGUN_REBUILD)
    assert settings_mismatch(task_of(BUILT, HARD)) is None
    assert settings_mismatch(task_of(begun, HARD)) is RebuildReason.OTHER_SETTINGS


@pytest.mark.parametrize(
    ("reason", "at", "rows", "is_parked"),
    [
        (RebuildReason.SCHEMA_CHANGE, "011.7", MOST_CHANGES + 1, True),
        (RebuildReason.SCHEMA_CHANGE, "011.7", MOST_CHANGES, False),
        (RebuildReason.SCHEMA_CHANGE, "011.9", MOST_CHANGES + 1, False),
        (RebuildReason.TYPE_CHANGE, "011.9", MOST_CHANGES + 1, True),
        (RebuildReason.WIDER_TYPE, "011.9", MOST_CHANGES + 1, False),
        (RebuildReason.REQUESTED, "011.7", MOST_CHANGES + 1, False),
        (RebuildReason.OTHER_SETTINGS, "011.7", MOST_CHANGES + 1, False),
    ],
    ids=["late", "late and small", "in order", "another type", "a wider type", "asked for", "other settings"],
)
def test_a_very_large_table_is_not_rebuilt_by_itself(
    reason: RebuildReason, at: str, rows: int, is_parked: bool
) -> None:
    lineage = Lineage(TABLE, (Segment(TABLE, "", None),), CHANGES[:1])
    state = replace(BUILT, lineage=lineage_digest(lineage), sequence="011.8")
    task = replace(
        task_of(state, HARD),
        lineage=replace(lineage, column_changes=(*CHANGES[:1], (at, DropColumn("a")))),
        rows=rows,
    )
    with pytest.raises(MainstemError, match="REBUILD_WAITS") if is_parked else nullcontext():
        refuse_large(task, Rebuild(reason))
    refuse_large(task, None)


def test_a_large_table_widens_a_column_that_has_lost_a_value_by_itself() -> None:
    """It is rebuilt, because the wider type may hold that value, but does not wait for it."""

    def reason(before: str, after: str, **more: Any) -> RebuildReason | None:
        columns = TableColumn("id", "int", None), TableColumn("n", before, None)
        layout = Layout((columns[0], TableColumn("n", after, None)), ("id",), SYSTEM_COLUMNS)
        found = rebuild_for_layout(replace(BUILT, columns=columns, **more), layout)
        return found and found.reason

    assert reason("int", "bigint") is None
    assert reason("int", "bigint", bad_values=1) is RebuildReason.WIDER_TYPE
    assert reason("int", "string", bad_values=1) is RebuildReason.TYPE_CHANGE
    wide = Layout((TableColumn("id", "bigint", None),), ("id",), SYSTEM_COLUMNS)
    state = replace(BUILT, columns=(TableColumn("id", "int", None),))
    found = rebuild_for_layout(state, wide)
    assert found is not None
    assert found.reason is RebuildReason.WIDER_TYPE


@pytest.mark.parametrize(
    ("told", "start", "is_parked"),
    [
        ({"011.7": 2}, "", True),
        ({"011.7": 1}, "", False),
        ({"011.9": 2}, "", False),
        ({"011.7": 2}, "011.9", False),
    ],
    ids=["late", "applied before", "in time", "no row is left from before it"],
)
def test_a_statement_is_late_by_its_position(told: dict[str, int], start: str, is_parked: bool) -> None:
    """The segments and keys of a table tell nothing: statements that come in time change them as well."""
    state = replace(BUILT, lineage="0:another", sequence="011.8", batch=1)
    lineage = Lineage(TABLE, (Segment(TABLE, start, None),), keys=(("011.9", ("n",)),))
    task = replace(task_of(state, HARD), lineage=lineage, rows=MOST_CHANGES + 1, statement_batches=told)
    with pytest.raises(MainstemError, match="REBUILD_WAITS") if is_parked else nullcontext():
        refuse_large(task, Rebuild(RebuildReason.SCHEMA_CHANGE))
