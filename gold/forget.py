"""Finding all that is kept of one row, and taking it out of its replica and history."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F

from framework.contracts.erasure import Erasure
from framework.errors import ConfigurationError, MainstemError
from framework.layer import Run
from framework.merge import Merge
from framework.names import quoted
from framework.tables import is_table, read_table
from gold import account
from gold.bad_values import BAD_VALUES_TABLE
from gold.cast import typed
from gold.changes import CHANGES_TABLE, is_of
from gold.merge import Layout
from gold.plan import Plan, Task, decide
from gold.tasks import Desk, all_tasks, known_schemas, named_tasks

_Key = tuple[tuple[str, str], ...]


def find(run: Run, table: str, key: Mapping[str, str], follows: bool) -> Erasure:
    """Everything that is kept of the row with this key, `follows`: under its earlier and later keys too.

    Raises MainstemError KEY_WAS_CHANGED where a key change links the row with another key that is not to be followed: a
    change of a key speaks of both, so that the other row could not be made anew without it.
    """
    desk = Desk(run.spark, run.lake, run.config)
    task = named_tasks(all_tasks(desk), table)[0]
    changes = desk.read(CHANGES_TABLE)
    plan = decide(run.spark, run.lake, changes, task, known_schemas(run.spark, run.lake))
    if plan is None:
        raise _nothing(task, key)
    _check_key(plan, key)
    named = account.keyed(changes, plan)
    keys: list[_Key] = [tuple(sorted(key.items()))]
    found = _rows_with(named, keys)
    while linked := [each for each in _keys_in(found, plan) if each not in keys]:
        if not follows:
            raise _linked(task, linked)
        keys += linked
        found = _rows_with(named, keys)
    halves = _with_keys(_of_table(changes, task).where("kind = 'half'"), keys).collect()
    if not found and not halves:
        raise _nothing(task, key)
    ids = {row["change_id"] for row in found}
    repeats = _of_table(changes, task).where((F.col("kind") == "duplicate") & F.col("change_id").isin(*ids)).collect() if ids else []
    name = task.name
    places = sorted({place for row in [*found, *halves, *repeats] for place in _places(row)})
    return Erasure(
        task.source, name.database, name.schema, name.table, tuple(dict(each) for each in keys), tuple(sorted(ids)), tuple(places)
    )


def erase(run: Run, erasure: Erasure) -> dict[str, int]:
    """Delete the rows from replica and history, and what `ops/bad_values` lists of them. Returns how many rows went."""
    desk = Desk(run.spark, run.lake, run.config)
    named = [task for task in all_tasks(desk) if (task.source, task.name.table) == (erasure.source, erasure.table)]
    task = next(t for t in named if (t.name.database, t.name.schema) == (erasure.database, erasure.schema))
    gone = {"replica_rows": 0, "history_rows": 0, "bad_values": 0}
    for count, path in (("replica_rows", task.state.replica), ("history_rows", task.state.history)):
        if path is not None and is_table(run.spark, path):
            gone[count] = _deleted(read_table(run.spark, path).where(_is_gone(task, erasure)), path, _identity(task))
    if run.lake.exists(run.spark, BAD_VALUES_TABLE):
        is_listed = (F.col("source") == erasure.source) & F.col("change_id").isin(*erasure.change_ids)
        listed = run.lake.read(run.spark, BAD_VALUES_TABLE).where(is_listed)
        gone["bad_values"] = _deleted(listed, run.lake.place(BAD_VALUES_TABLE), ("source", "change_id"))
    return gone


def _deleted(rows: DataFrame, place: str, identity: Sequence[str]) -> int:
    """Delete the rows of the table at `place` that have these columns as `rows`, which are some of its own, have them."""
    count = rows.count()
    if count:
        ids = rows.select(*(F.col(quoted(name)).alias(f"k{i}") for i, name in enumerate(identity))).distinct()
        same = " AND ".join(f"t.{quoted(name)} <=> s.k{i}" for i, name in enumerate(identity))
        Merge(place, ids, same).delete().execute()
    return count


def _identity(task: Task) -> list[str]:
    names = _gold_names(task)
    return [names[key] for key in task.state.keys] or ["_cdc_change_id"]


def _is_gone(task: Task, erasure: Erasure) -> Column:
    if not task.state.keys:
        return F.col("_cdc_change_id").isin(*erasure.change_ids)
    types = {column.name: column.type for column in task.state.columns}
    names = _gold_names(task)
    tests = []
    for key in erasure.keys:
        parts = [F.col(quoted(names[name])) == typed(F.lit(text), types[name]) for name, text in key.items()]
        tests.append(reduce(lambda a, b: a & b, parts))
    return reduce(lambda a, b: a | b, tests)


def _gold_names(task: Task) -> Mapping[str, str]:
    return Layout(task.state.columns, task.state.keys, {}).gold_names


def _check_key(plan: Plan, key: Mapping[str, str]) -> None:
    keys, names = plan.layout.keys, [column.name for column in plan.layout.columns]
    is_right = set(key) == set(keys) if keys else set(key) <= set(names)
    if not is_right:
        raise ConfigurationError(
            "KEY_NEEDED",
            found=f"the columns {', '.join(sorted(key))}",
            where=plan.task.name.dotted,
            action=f"name the whole key, and nothing else: {' '.join(f'{name}=…' for name in keys or names[:5])}",
        )


def _of_table(changes: DataFrame, task: Task) -> DataFrame:
    mine = reduce(lambda a, b: a | b, (is_of(piece, task.source) for piece in task.lineage.pieces))
    return changes.where(mine)


def _rows_with(named: DataFrame, keys: Sequence[_Key]) -> list[Row]:
    return _with_keys(named, keys).collect()


def _with_keys(rows: DataFrame, keys: Sequence[_Key]) -> DataFrame:
    return rows.where(reduce(lambda a, b: a | b, (_has(key) for key in keys)))


def _has(key: _Key) -> Column:
    """Whether one of the images has the key; what a partial one leaves out is as it was before."""
    sides = (
        [F.try_element_at(F.col("before"), F.lit(name)) for name, _ in key],
        [F.coalesce(*(F.try_element_at(F.col(image), F.lit(name)) for image in ("after", "before"))) for name, _ in key],
    )
    tests = [reduce(lambda a, b: a & b, (v.eqNullSafe(F.lit(text)) for v, (_, text) in zip(side, key, strict=True))) for side in sides]
    return F.coalesce(tests[0] | tests[1], F.lit(False))


def _keys_in(rows: Sequence[Row], plan: Plan) -> list[_Key]:
    """The keys that the rows have, each once."""
    found: dict[_Key, None] = {}
    for row in rows if plan.layout.keys else ():
        before, after = row["before"] or {}, row["after"] or {}
        for image in (before, {**before, **after}):
            if all(image.get(name) is not None for name in plan.layout.keys):
                found[tuple(sorted((name, image[name]) for name in plan.layout.keys))] = None
    return list(found)


def _places(row: Row) -> list[tuple[str, int, int]]:
    places = [(row["topic"], row["partition"], row["offset"])]
    if row["paired_with"] is not None:
        places.append(tuple(row["paired_with"]))
    return places


def _shown(key: _Key) -> str:
    return " ".join(f"{name}={text}" for name, text in key)


def _linked(task: Task, keys: Sequence[_Key]) -> MainstemError:
    return MainstemError(
        "KEY_WAS_CHANGED",
        found=f"changes that link the row with {', '.join(_shown(key) for key in keys[:5])}",
        where=task.name.dotted,
        action="with --follow all rows that had one of these keys are forgotten: trace them first, a key may have had two owners",
    )


def _nothing(task: Task, key: Mapping[str, str]) -> MainstemError:
    return MainstemError(
        "NOTHING_TO_FORGET",
        found="no change of silver has these values",
        where=f"{task.name.dotted} {_shown(tuple(key.items()))}",
        action="write the values as `trace` shows them; messages that have not been read yet need a `run` first",
    )
