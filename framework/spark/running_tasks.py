"""What Spark is doing at the moment, from its own status: no job is needed to know it."""

from __future__ import annotations

from pyspark.sql import SparkSession

from framework.spark.session import is_connect


def running_tasks(spark: SparkSession) -> tuple[int, int] | None:
    """The tasks of the running stages: how many have ended, and how many there are.

    None where no stage runs, and on Spark Connect, whose sessions do not know it.
    """
    if is_connect(spark):
        return None
    tracker = spark.sparkContext.statusTracker()
    stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
    running = [stage for stage in stages if stage is not None]
    done = sum(stage.numCompletedTasks for stage in running)
    return (done, sum(stage.numTasks for stage in running)) if running else None
