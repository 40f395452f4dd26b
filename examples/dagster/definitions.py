"""Dagster: the replicas as one asset that a run brings up to date, with what each table received as metadata.

Start it with `dagster dev -f definitions.py`, in an environment that has Mainstem, too. A failed run can
always be repeated, so the asset has retries. Exit code 3 (a table is parked, or a quality rule is broken)
gets none: the other tables are up to date, and another attempt repairs nothing.
"""

from __future__ import annotations

import json
import subprocess

import dagster as dg

FOLDER = "/srv/shop"  # has mainstem.yml
COMMANDS = {
    "run": ["mainstem", "run", "--json"],
    "metrics": ["mainstem", "metrics", "--file", "mainstem.prom"],
}
NEEDS_A_PERSON = (2, 3)  # wrong configuration; a parked table or a broken rule


@dg.asset(
    retry_policy=dg.RetryPolicy(max_retries=2, delay=60),
    op_tags={"dagster/concurrency_key": "mainstem_shop"},
)
def replicas() -> dg.MaterializeResult:
    """Change feeds to correct, typed, current tables."""
    done = subprocess.run(COMMANDS["run"], cwd=FOLDER, check=False, stdout=subprocess.PIPE, text=True)
    if done.returncode in NEEDS_A_PERSON:
        raise dg.Failure(f"exit code {done.returncode}: see `mainstem status`", allow_retries=False)
    if done.returncode:
        raise dg.Failure(f"exit code {done.returncode}")
    subprocess.run(COMMANDS["metrics"], cwd=FOLDER, check=True)
    result = json.loads(done.stdout)
    changes = {t["name"]: t["inserted"] + t["updated"] + t["deleted"] for t in result["tables"]}
    return dg.MaterializeResult(metadata={"seconds": result["seconds"], "rows by table": changes})


every_quarter = dg.ScheduleDefinition(
    name="every_quarter", target=dg.AssetSelection.assets(replicas), cron_schedule="*/15 * * * *"
)
defs = dg.Definitions(assets=[replicas], schedules=[every_quarter])
