"""The plan of a pipeline: what a run would do now."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from framework.config.model import Config
from framework.lakehouse.staging import scratch_folder
from framework.pipeline.layer import Run, installed_layers
from framework.pipeline.session import open_pipeline


def make_plan(config: Config, table: str | None = None) -> dict[str, Any]:
    """What waits and what a run would do with it. Writes nothing but files that are gone in the end.

    Each layer plans with the rows that the layers before it would append. `table` is the dotted name of the
    one table to plan for, None for all.
    """
    plan: dict[str, Any] = {"pipeline": config.pipeline}
    with (
        open_pipeline(config, is_exclusive=False) as (lake, spark),
        scratch_folder(spark, lake, "plan") as scratch,
    ):
        lake = replace(lake, staging=f"{scratch}/staging")
        work = Run(spark, lake, config, "plan", table, scratch)
        for layer in installed_layers():
            if layer.plan is not None:
                preview = layer.plan(work)
                plan.update(preview.summary)
                work = replace(work, lake=replace(work.lake, added={**work.lake.added, **preview.rows}))
    return plan
