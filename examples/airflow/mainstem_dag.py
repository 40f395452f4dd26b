"""Airflow 3: run a pipeline every quarter of an hour, then write its metrics.

Put this file into the folder of DAGs, and Mainstem and Java on the workers. Only one run works on a pipeline
at a time (`max_active_runs`); Mainstem's own lease refuses a second one anyway. A failed run can always be
repeated, so the task has retries. Exit code 3 (a table is parked, or a quality rule is broken) gets none: the
other tables are up to date, and another attempt repairs nothing.
"""

from __future__ import annotations

import subprocess
from datetime import timedelta

import pendulum
from airflow.sdk import dag, task
from airflow.sdk.exceptions import AirflowFailException

FOLDER = "/srv/shop"  # has mainstem.yml
COMMANDS = {
    "validate": ["mainstem", "validate"],
    "run": ["mainstem", "run"],
    "metrics": ["mainstem", "metrics", "--file", "mainstem.prom"],
}
NEEDS_A_PERSON = (2, 3)  # wrong configuration; a parked table or a broken rule


def mainstem(name: str) -> None:
    """Run a command in the folder of the pipeline; its output is in the log of the task."""
    code = subprocess.run(COMMANDS[name], cwd=FOLDER, check=False).returncode
    if code in NEEDS_A_PERSON:
        raise AirflowFailException(f"exit code {code}: see the log, and `mainstem status`")
    if code:
        raise RuntimeError(f"exit code {code}")


@dag(
    schedule="*/15 * * * *",
    start_date=pendulum.datetime(2026, 1, 1, tz="UTC"),
    catchup=False,
    max_active_runs=1,
    tags=["mainstem"],
)
def mainstem_shop() -> None:
    """Change feeds to correct, typed, current tables."""

    @task
    def validate() -> None:
        mainstem("validate")

    @task(retries=2, retry_delay=timedelta(minutes=1))
    def run() -> None:
        mainstem("run")

    @task(trigger_rule="all_done")
    def metrics() -> None:
        mainstem("metrics")

    validate() >> run() >> metrics()


mainstem_shop()
