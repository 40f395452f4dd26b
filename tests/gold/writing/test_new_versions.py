"""A history that gets the versions of new changes alone is the one that is made of all changes.

The seed (MAINSTEM_SEED) draws many small tables: earlier changes of any kind, and new ones in order. The
stored versions may already have some of the new changes, from a run that ended before it was published.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from framework.config.tables import Deletes, TableSettings
from framework.contracts.ddl_actions import SetKeys, TableName
from gold.changes.few_changes import FewChange
from gold.changes.profile import Profile
from gold.planning.plan import Plan, policy_of
from gold.planning.table_state import State, TableState
from gold.planning.task import Task
from gold.schema.columns import ColumnNaming, TableColumn
from gold.schema.layout import SYSTEM_COLUMNS, VALIDITY_COLUMNS, Layout
from gold.schema.lineage import Lineage
from gold.writing import new_versions, replica_and_history
from gold.writing.history import versions_of
from gold.writing.key_bounds import key_bounds
from gold.writing.merge_rows import computed_once
from gold.writing.new_versions import can_continue, changed_versions, new_effects
from gold.writing.plain_changes import are_plain
from tests.gold.silver_builder import GoldPipeline, ddl, delete, insert, row, update
from tests.gold.writing.test_unfinished_runs import apply_unpublished

SEED = os.environ.get("MAINSTEM_SEED") or "20240301"
GAMES = int(os.environ.get("MAINSTEM_TABLES") or 300)
SCHEMA = (
    "game int, sequence string, event_time timestamp, change_id string, transaction_id string, op string, "
    "partial boolean, half string, before map<string,string>, after map<string,string>"
)
START = datetime(2024, 3, 1, tzinfo=UTC)
LAYOUT = Layout(
    (*(TableColumn(name, "bigint", None) for name in ("game", "id")), TableColumn("a", "string", None)),
    ("game", "id"),
    {**SYSTEM_COLUMNS, **VALIDITY_COLUMNS},
)
TABLE = TableName("db", None, "t")
APPLIED = 100
"""The position up to which changes are applied; also the newest time of an applied change, in seconds."""
TRUNCATES = {30: 40, 31: 95, 70: 60}
"""Position and time."""

Change = tuple[Any, ...]
Version = Mapping[str, Any]


def at(place: int) -> str:
    return f"011.{place:06d}"


def time_of(moment: int | None) -> datetime | None:
    return None if moment is None else START + timedelta(seconds=moment)


class Game:
    """One table with two keys."""

    def __init__(self, number: int) -> None:
        self.number, self.draw = number, Random(f"{SEED} {number}")
        self.disorder = self.draw.choice((0.0, 0.0, 0.1, 0.5))
        """How often the time of a new change is older than that of an applied one, or not known."""

    def earlier(self) -> list[Change]:
        """Also partial images and changes of keys, with times in any order."""
        places = sorted(self.draw.sample(range(1, APPLIED + 1), self.draw.randrange(7)))
        kinds = ("insert", "insert", "update", "delete", "partial", "move")
        return [self._change(p, self.draw.choice(kinds), self.draw.randint(0, APPLIED)) for p in places]

    def new(self) -> list[Change]:
        """With whole images of rows that keep their keys. Several changes may have one position or time."""
        found: list[Change] = []
        moment = APPLIED
        for place in sorted(self.draw.sample(range(101, 140), self.draw.randrange(1, 7))):
            moment += self.draw.choice((0, 1, 3))
            is_odd = self.draw.random() < self.disorder
            seen = self.draw.choice((None, moment - 2, self.draw.randint(0, APPLIED))) if is_odd else moment
            for kind in self.draw.choice((("insert",), ("update",), ("delete",), ("delete", "insert"))):
                found.append(self._change(place, kind, seen))
            if self.draw.random() < 0.1:
                found.append(self._change(place, "insert", moment))
        return found

    def _change(self, place: int, kind: str, moment: int | None) -> Change:
        key = self.draw.choice((1, 2))
        image = {"game": str(self.number), "id": str(key)}
        whole = {**image, "a": self.draw.choice((None, "x", f"u{place}"))}
        before, after = {
            "delete": (whole, None),
            "insert": (None, whole),
            "update": (self.draw.choice((None, image)), whole),
            "partial": (None, self.draw.choice((image, whole))),
            "move": ({**image, "id": str(3 - key)}, whole),
        }[kind]
        op = kind if kind in ("insert", "delete") else "update"
        change_id = f"{self.number}-{place}-{self.draw.random()}"
        is_partial = kind == "partial"
        return (self.number, at(place), time_of(moment), change_id, None, op, is_partial, None, before, after)


def plan_of(deletes: Deletes, newest: int | None, truncates: Mapping[int, int]) -> Plan:
    profile = Profile(rows=1, has_partials=True, has_key_changes=True, event_time=_naive(newest))
    state = TableState("feed", TABLE, State.ACTIVE, sequence=at(APPLIED), batch=1, profile=profile)
    lineage = Lineage(TABLE, (), truncates=tuple((at(place), f"t{place}") for place in truncates))
    times = {at(place): (time_of(moment), 1) for place, moment in truncates.items()}
    task = Task("feed", lineage, state, TableSettings(deletes=deletes, history=True), 2, 2, 2, times)
    batch = Profile(rows=1, min_sequence=at(APPLIED + 1))
    return Plan(task, LAYOUT, LAYOUT, profile, batch, (), None, "", {}, 0)


def _naive(moment: int | None) -> datetime | None:
    found = time_of(moment)
    return None if found is None else found.replace(tzinfo=None)


def stored_of(frame: DataFrame) -> DataFrame:
    """Versions as a history has them."""
    names = LAYOUT.gold_names
    cells = [F.col(f"c{i}").alias(names[column.name]) for i, column in enumerate(LAYOUT.columns)]
    return frame.select(*cells, *LAYOUT.system).localCheckpoint()


def found_in(frame: DataFrame) -> dict[tuple[int, int, str], Version]:
    found = [one.asDict() for one in frame.collect()]
    assert len({_place(one) for one in found}) == len(found)
    return {_place(one): one for one in found}


def _place(version: Version) -> tuple[int, int, str]:
    return version["game"], version["id"], version["_cdc_sequence"]


def merged(stored: DataFrame, rows: DataFrame) -> dict[tuple[int, int, str], Version]:
    """What `merge_versions` makes of a history."""
    names = {f"c{i}": column.name for i, column in enumerate(LAYOUT.columns)}
    found = found_in(stored)
    for one in rows.collect():
        given = one.asDict()
        place = given["k0"], given["k1"], given["_cdc_sequence"]
        if given["is_stale"]:
            del found[place]
        elif given["is_ended"]:
            found[place] = {**found[place], **{n: given[n] for n in ("_cdc_valid_to", "_cdc_is_current")}}
        else:
            found[place] = {names.get(n, n): given[n] for n in (*names, *LAYOUT.system)}
    return found


@pytest.mark.parametrize("deletes", [Deletes.HARD, pytest.param(Deletes.IGNORE, marks=pytest.mark.slow)])
def test_new_versions_are_those_of_all_changes(spark: SparkSession, deletes: Deletes) -> None:
    print(f"\nMAINSTEM_SEED={SEED}")
    earlier: list[Change] = []
    unpublished: list[Change] = []
    new: list[Change] = []
    for game in map(Game, range(GAMES)):
        earlier += game.earlier()
        mine = game.new()
        seen = game.draw.choice((0.0, 0.0, 0.5, 1.0))
        unpublished += [change for change in mine if game.draw.random() < seen]
        new += mine
    is_ignored = deletes is Deletes.IGNORE
    plan = plan_of(deletes, APPLIED, {} if is_ignored else TRUNCATES)
    assert can_continue(plan)

    def versions_after(changes: list[Change]) -> DataFrame:
        return stored_of(versions_of(spark.createDataFrame(changes, SCHEMA), plan))

    stored, wanted = versions_after([*earlier, *unpublished]), found_in(versions_after([*earlier, *new]))
    rows = spark.createDataFrame(new, SCHEMA)
    timed = new_effects(rows, stored, plan, are_few=True).localCheckpoint()
    uncertain = {(one["k0"], one["k1"]) for one in timed.where("NOT is_certain").collect()}
    found = merged(stored, changed_versions(timed, rows, stored, plan, are_few=True))
    wrong = sorted(
        place
        for place in {*found, *wanted}
        if place[:2] not in uncertain and found.get(place) != wanted.get(place)
    )
    texts = [f"{place}: {found.get(place)} instead of {wanted.get(place)}" for place in wrong[:5]]
    texts += [str(change) for change in [*earlier, *new] if wrong and change[0] == wrong[0][0]]
    assert not wrong, f"MAINSTEM_SEED={SEED}: {len(wrong)} are wrong\n" + "\n".join(texts)
    print(len(uncertain), "of", 2 * GAMES, "keys are not certain")
    assert GAMES / 20 < len(uncertain) < GAMES


@pytest.mark.slow
def test_a_batch_in_order_reads_the_new_changes_alone(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gold = GoldPipeline(spark, tmp_path, "  - {match: db.t, history: true}\n")
    read: list[int] = []

    def watched(rows: DataFrame, *given: Any) -> Any:
        read.append(sum("silver/changes" in file for file in rows.inputFiles()))
        return computed_once(rows, *given)

    for batches in (2, 1, 3, 1):
        for _ in range(batches):
            place = 10 * gold.batch + 20
            gold.add_batch(insert("t", place, row(place)), update("t", place + 1, None, row(1, n=str(place))))
        with monkeypatch.context() as patch:
            patch.setattr(new_versions, "computed_once", watched)
            patch.setattr(
                replica_and_history, "changes_of_keys", lambda *_: pytest.fail("silver's past is read")
            )
            gold.apply()
    of_rounds = read[::2]  # of the new changes; then of the versions, which are computed by then
    assert of_rounds == [1, 3, 1]

    gold.add_batch(update("t", 900, None, row(1, n="8")), delete("t", 901, row(10)))
    apply_unpublished(gold)
    gold.add_batch(delete("t", 902, row(1)))
    gold.apply()
    assert [(one["n"], one.get("to")) for one in gold.history("t") if one["id"] == 1] == [
        (10, 21), (20, 31), (30, 41), (40, 51), (50, 61), (60, 71), (70, 900), (8, 902)
    ]  # fmt: skip
    assert [one["to"] for one in gold.history("t") if one["id"] == 10] == [901]


@pytest.mark.parametrize("key", [("game", "id"), ("id",)], ids=["the current key", "a former key"])
def test_new_changes_need_earlier_ones_where_they_came_with_a_former_key(key: tuple[str, ...]) -> None:
    """It does not matter that earlier changes of the table came with one."""
    seen = {(0, ("id",)): at(1), (0, ("game", "id")): at(2)}
    profile = Profile(rows=9, seen_keys=seen, has_key_changes=True)
    task = plan_of(Deletes.HARD, APPLIED, {}).task
    batch = Profile(rows=1, min_sequence=at(APPLIED + 1), seen_keys={(0, key): at(APPLIED + 1)})
    plan = Plan(task, LAYOUT, LAYOUT, profile, batch, (ColumnNaming(),), None, "", {}, 0)
    image = {"game": "1", "id": "7"}
    change = FewChange("new", 0, 2, "insert", at(APPLIED + 1), None, key, None, image, False, False, None)
    is_current = len(key) == 2
    assert can_continue(plan) is is_current
    assert are_plain(plan, policy_of(task, batch)) is is_current
    assert key_bounds([change], plan) == ({"game": ("1", "1"), "id": ("7", "7")} if is_current else None)


@pytest.mark.slow
def test_a_table_that_had_another_key_reads_its_new_changes_alone(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Unless some of them came with that key: earlier changes complete their images."""
    gold = GoldPipeline(spark, tmp_path, "  - {match: db.t, history: true}\n")
    gold.add_batch(insert("t", 1, row(1, k="a")), insert("t", 2, row(2, k="b")))
    gold.apply()
    both = ("id", "k")
    gold.add_batch(ddl("t", 3, SetKeys(both)), insert("t", 4, row(1, k="c"), keys=both))
    gold.apply()
    earlier = {file: file.read_bytes() for file in Path(gold.lake.root).glob("silver/changes/*.parquet")}
    for file in earlier:
        file.unlink()
    gold.add_batch(
        update("t", 5, None, row(1, k="a", n="abc"), keys=both), insert("t", 6, row(3, k="d"), keys=both)
    )
    applied = gold.apply()["t"]
    assert (applied.state.reason, applied.applied, applied.state.bad_values) == (None, 2, 1)

    for file, content in earlier.items():
        file.write_bytes(content)
    gold.add_batch(
        update("t", 7, None, row(2, n="8"), partial=True),
        update("t", 8, None, row(1, k="c", n="9"), keys=both),
    )
    gold.apply()
    rows, history = gold.rows("t"), gold.history("t")
    assert [(one["id"], one["k"], one.get("n")) for one in rows] == [
        (1, "a", None), (1, "c", 9), (2, "b", 8), (3, "d", None)
    ]  # fmt: skip
    gold.rebuild("t")
    assert (gold.rows("t"), gold.history("t")) == (rows, history)
