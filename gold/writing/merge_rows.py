"""The rows of a merge; those of a large one are computed once, looked at, and kept until they are merged.

What a look at them shows saves a job that would read the changes again to look for bad values, and lets the
merge skip the files of the replica that can have none of the keys. The rows of small merges are looked at in
this process (`key_bounds`, `certain_fit`).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeVar

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from framework.config.tables import BadValues
from framework.lakehouse.merge import Merged
from framework.spark.session import is_connect
from gold.changes.effects import effects, key_names
from gold.planning.gates import refuse_failing_rows
from gold.planning.plan import Plan, policy_of
from gold.writing import bad_values, replica
from gold.writing.key_bounds import key_measures, measured_bounds
from gold.writing.late_changes import with_keys
from gold.writing.plain_changes import Facts, are_plain, watched_rows
from gold.writing.table_changes import ChangeFrames

Result = TypeVar("Result")
Bounds = Mapping[str, tuple[str, str]]
"""Between which values, as SQL, key columns are, by the column's name."""
_MATERIALIZE = "spark.databricks.delta.merge.materializeSource"
_LOST = "CHECKPOINT_RDD_BLOCK_ID_NOT_FOUND"


@dataclass(frozen=True, slots=True)
class Look:
    """What the rows of a merge show.

    Attributes:
        bounds: Where the keys are; None where one is null, or where nobody looked.
        all_fit: Whether every change behind the rows surely fits its columns.
    """

    bounds: Bounds | None = None
    all_fit: bool = False


def rows_to_merge(
    changes: ChangeFrames, late: DataFrame | None, plan: Plan, *, is_watched: bool
) -> tuple[DataFrame, Facts | None]:
    """The rows for `merge_latest`, and what is seen of the changes on their way.

    Args:
        changes: The new changes, and all changes, from which late keys are folded again.
        late: These keys; None where there are none.
        plan: The plan.
        is_watched: Whether anybody wants to know what is seen.

    Raises:
        MainstemError: For a gate that a row does not pass, and for a bad value that parks the table.
    """
    layout, policy = plan.layout, policy_of(plan.task, plan.profile)
    is_plain = late is None and not plan.task.gates and are_plain(plan, policy)
    if not is_plain or tests_states(plan):
        states = _newest_states(changes, late, plan)
        refuse_states(states, plan)
    if not is_plain:
        return replica.typed_rows(states, layout, "is_forced", are_marked=policy.has_partials), None
    return watched_rows(changes.new(), plan, policy, is_watched=is_watched)


def _newest_states(changes: ChangeFrames, late: DataFrame | None, plan: Plan) -> DataFrame:
    """The newest states of the keys of new changes, with `is_forced`; those of late keys from all changes."""
    layout, policy, keys = plan.layout, policy_of(plan.task, plan.profile), key_names(len(plan.layout.keys))
    states = replica.newest_states(effects(changes.new(), layout.key_columns), layout, plan.profile, policy)
    states = states.withColumn("is_forced", F.lit(False))
    if late is None:
        return states
    refolded = replica.newest_states(
        with_keys(effects(changes.everything(), layout.key_columns), late, keys), layout, plan.profile, policy
    )
    return with_keys(states, late, keys, without=True).unionByName(
        refolded.withColumn("is_forced", F.lit(True)), allowMissingColumns=True
    )


def tests_states(plan: Plan) -> bool:
    """Whether a bad value parks the table only where a row of the replica would get it.

    A history and a table without a key get the values of all changes.
    """
    settings = plan.task.settings
    return bool(settings.bad_values is BadValues.PARK and plan.layout.keys and not settings.history)


def refuse_states(states: DataFrame, plan: Plan) -> None:
    """Parks the table for a state that a gate refuses, and for one with a bad value where they park it.

    `states` are the newest states of keys, as `newest_states` returns them.

    Raises:
        MainstemError: BAD_VALUE, and GATE_FAILED.
    """
    task, layout = plan.task, plan.layout
    if tests_states(plan):
        known = dict.fromkeys(("before", "after"), F.col("known"))
        bad_values.refuse(states.where("is_upsert").withColumns(known), layout, task.name)
    refuse_failing_rows(states, layout, task.gates, task.name.table)


def merge_many(
    rows: DataFrame,
    plan: Plan,
    merge: Callable[[DataFrame, Bounds | None], Merged],
    facts: Facts | None = None,
) -> tuple[Merged, Look]:
    """Merges many rows, which are computed once.

    Spark Connect keeps no rows: there the merge computes them, and nothing is known of them.

    Args:
        rows: k0… and the columns that the merge needs.
        plan: The plan of the table.
        merge: Merges rows with these bounds.
        facts: What is seen of the changes on their way; None where nobody looks.
    """
    look = Look()

    def look_and_merge(there: DataFrame, is_kept: bool) -> tuple[Merged, Look]:
        nonlocal look
        look = _look(rows, there, plan, facts) if is_kept else look
        return merge(there, look.bounds), look

    return computed_once(rows, look_and_merge)


def computed_once(rows: DataFrame, use: Callable[[DataFrame, bool], Result]) -> Result:
    """What `use` makes of these rows, which are computed once however often it reads them.

    It gets the rows, and whether they are kept: Spark Connect keeps none, and rows that an executor kept are
    lost with it. Then they are computed each time.
    """
    try:
        with _kept(rows) as there:
            return use(rows if there is None else there, there is not None)
    except Exception as error:  # a lost block comes through py4j with no class of its own
        if _LOST not in str(error):
            raise
    return use(rows, False)


@contextlib.contextmanager
def _kept(rows: DataFrame) -> Iterator[DataFrame | None]:
    """These rows, computed: Delta need not copy them again before it merges them. None on Spark Connect."""
    spark = rows.sparkSession
    if is_connect(spark):
        yield None
        return
    there = rows.localCheckpoint()
    before = spark.conf.get(_MATERIALIZE, None)
    try:
        with contextlib.suppress(PySparkException):  # else the merge makes one more copy
            spark.conf.set(_MATERIALIZE, "none")
        yield there
    finally:
        with contextlib.suppress(PySparkException):
            spark.conf.unset(_MATERIALIZE) if before is None else spark.conf.set(_MATERIALIZE, before)
        there._jdf.queryExecution().logical().rdd().unpersist(False)


def _look(rows: DataFrame, there: DataFrame, plan: Plan, facts: Facts | None) -> Look:
    """What rows show that are computed and kept `there`."""
    keys, seen = plan.layout.key_columns, None if facts is None else facts.seen(rows)
    if facts is not None and seen is not None:
        return Look(measured_bounds(keys, seen), facts.all_fit(rows, plan.batch_profile.rows))
    measured = there.agg(*key_measures(keys, F.lit(True))).collect()[0].asDict()
    return Look(measured_bounds(keys, measured))
