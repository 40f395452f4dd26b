"""Bronze as the command line sees it: how it runs, and what it adds to `status`."""

from __future__ import annotations

from bronze.expectations import expectations
from bronze.forget import erase
from bronze.job import run_bronze
from bronze.look import look
from bronze.outlook import outlook
from bronze.seed import seed
from bronze.source import MESSAGES_TABLE
from bronze.verify import verify
from framework.layer import Layer, LayerReport, Run


def _run(run: Run) -> LayerReport:
    result = run_bronze(run.spark, run.lake, run.config, run.run_id)
    counts = {"landed": result.messages, "files": sum(source.files for source in result.sources)}
    waiting = sum(len(source.waiting) for source in result.sources)
    return LayerReport("bronze", {**counts, "files_waiting": waiting}, errors=result.errors)


def _status(run: Run) -> dict[str, int]:
    if not run.lake.exists(run.spark, MESSAGES_TABLE):
        return {"messages": 0}
    return {"messages": run.lake.read(run.spark, MESSAGES_TABLE).count()}


LAYER = Layer(
    name="bronze",
    run=_run,
    verify=verify,
    status=_status,
    look=look,
    plan=outlook,
    erase=erase,
    seed=seed,
    expectations=expectations,
)
