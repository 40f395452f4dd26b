"""The rows of a large merge: computed once, looked at, and kept until they are merged.

What a look at them shows saves a job that would read the changes again to look for bad values, and lets the
merge skip the files of the replica that can have none of the keys. The rows of small merges are looked at in
this process (`key_bounds`, `certain_fit`).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from framework.lakehouse.merge import Merged
from framework.spark.session import is_connect
from gold.changes.effects import effects
from gold.changes.latest import WATCHED
from gold.changes.merge_policy import MergePolicy
from gold.planning.plan import Plan
from gold.schema.type_inference import INTEGERS
from gold.writing import bad_values
from gold.writing.key_bounds import LONGEST, as_sql

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


def merge_many(
    rows: DataFrame, plan: Plan, merge: Callable[[DataFrame, Bounds | None], Merged]
) -> tuple[Merged, Look]:
    """Merges many rows, which are computed once.

    Spark Connect keeps no rows: there the merge computes them, and nothing is known of them.

    Args:
        rows: k0…, the columns that the merge needs, and perhaps the columns `WATCHED`.
        plan: The plan of the table.
        merge: Merges rows with these bounds.
    """
    look = Look()
    try:
        with _kept(rows) as there:
            look = Look() if there is None else _look(there, plan)
            return merge(rows if there is None else there, look.bounds), look
    except Exception as error:  # a lost block comes through py4j with no class of its own
        if _LOST not in str(error):
            raise
    return merge(rows, look.bounds), look  # an executor was lost, with rows that it kept


def watched_effects(new: DataFrame, plan: Plan, policy: MergePolicy) -> DataFrame | None:
    """The effects of new changes with `is_faulty`; None where that would not show all faults."""
    faulty = bad_values.is_faulty(plan.layout)
    if faulty is None or policy.has_partials or plan.profile.has_key_changes or plan.former_keys is not None:
        return None
    return effects(new.withColumn("is_faulty", faulty), plan.layout.key_columns, ("is_faulty",))


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


def _look(rows: DataFrame, plan: Plan) -> Look:
    keys = plan.layout.key_columns
    has_null = [F.max(F.col(f"k{i}").isNull()).alias(f"null{i}") for i in range(len(keys))]
    bounded = {i: key for i, key in enumerate(keys) if key.type in INTEGERS or key.type == "string"}
    ends: list[Column] = []
    for i in bounded:
        ends += [F.min(f"k{i}").alias(f"low{i}"), F.max(f"k{i}").alias(f"high{i}")]
    facts = [F.sum("effects").alias("effects"), F.max("is_faulty").alias("is_faulty")]
    is_watched = set(WATCHED) <= set(rows.columns)
    found = rows.agg(*has_null, *ends, *(facts if is_watched else ())).collect()[0].asDict()
    # a change whose key does not fit has no effect
    all_fit = is_watched and found["effects"] == plan.batch_profile.rows and not found["is_faulty"]
    if any(found[f"null{i}"] is not False for i in range(len(keys))):
        return Look(None, all_fit)
    bounds = {}
    for i, key in bounded.items():
        low, high = found[f"low{i}"], found[f"high{i}"]
        if key.type in INTEGERS or max(len(low), len(high)) <= LONGEST:
            bounds[key.name] = as_sql(low, high)
    return Look(bounds, all_fit)
