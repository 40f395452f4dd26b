"""What the commands do with a pipeline, as functions. Spark is imported by those that need it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

from framework.config.model import Config
from framework.errors import ConfigurationError, MainstemError, suggested
from framework.spark.startup_errors import spark_missing
from mainstem.messages import checked_config

if TYPE_CHECKING:
    from framework.contracts.quality import QualityResult
    from framework.pipeline.layer import TableLine
    from framework.report.notebook import Page

Through = Literal["bronze", "silver", "gold", "quality"]
"""The last layer of a run."""


@dataclass(frozen=True, slots=True)
class RunResult:
    """What a run did.

    Attributes:
        exit_code: As of `mainstem run`: 0 everything was applied, 1 a source failed, 3 a table is parked or a
            quality rule of severity error is broken.
        tables: One line for each table that the run processed: `name`, `state` (ok, PARKED), `inserted`,
            `updated`, `deleted`, `late`, `notes`, `seconds`.
        counts: What became of the messages: `messages`, `changes`, `quarantined` and others.
        failed_rules: The quality rules that do not hold, with the failing keys.
        errors: The errors that did not stop the rest of the run.
        notes: Notes for people.
        seconds: The time that the run took.
    """

    exit_code: int
    tables: tuple[TableLine, ...]
    counts: Mapping[str, int]
    failed_rules: tuple[QualityResult, ...]
    errors: tuple[Exception, ...]
    notes: tuple[str, ...]
    seconds: float

    def require_complete(self) -> RunResult:
        """This result, if everything was applied and no rule of severity error is broken.

        Raises:
            MainstemError: RUN_INCOMPLETE; `found` names the errors, the parked tables and the broken rules.
        """
        if self.exit_code == 0:
            return self
        parked = [line.name for line in self.tables if line.state == "PARKED"]
        broken = sorted({result.rule for result in self.failed_rules if result.is_error})
        problems = [
            *(str(error).splitlines()[0] for error in self.errors if str(error)),
            *([f"parked: {', '.join(parked)}"] if parked else ()),
            *([f"broken rules: {', '.join(broken)}"] if broken else ()),
        ]
        raise MainstemError(
            "RUN_INCOMPLETE",
            found="; ".join(problems) or f"exit code {self.exit_code}",
            where="mainstem.run",
            action="read `errors`, `tables` and `failed_rules` of the result, fix the cause and run again",
        )


def detect(path: str | os.PathLike[str]) -> Mapping[str, Any]:
    """The format of a file or folder of messages with its evidence, as `mainstem detect --json` prints it.

    Raises:
        ConfigurationError: NO_SUCH_PATH.
    """
    _require_spark()
    from bronze.files.peek import peek_messages
    from framework.contracts.file_messages import Sample
    from framework.demo import feeds
    from silver.detection.detect import detect as detect_format
    from silver.formats import FORMATS

    sample = Sample()
    found = detect_format(peek_messages(Path(path), sample), FORMATS, samples=feeds.sample)
    read = {"is_sample": sample.is_cut, "file_count": sample.files, "skipped": list(sample.skipped)}
    return {"path": str(path), **found, **read}


def plan(config: Config | str | os.PathLike[str], *, table: str | None = None) -> dict[str, Any]:
    """What waits and what a run would do with it, as `mainstem plan --json` prints it. Writes nothing.

    `table` is the dotted name of the one table to plan for, None for all.
    """
    _require_spark()
    from framework.pipeline.plan import make_plan

    return make_plan(checked_config(config), table)


def run(
    config: Config | str | os.PathLike[str], *, through: Through = "quality", table: str | None = None
) -> RunResult:
    """Land, decode and apply everything that waits, once. A running Spark session is used and stays open.

    Args:
        config: The pipeline.
        through: The last layer to run.
        table: The dotted name of the one table to bring up to date, None for all.

    Returns:
        What the run did. A parked table, a broken rule or a source that failed is in the result and raises
        nothing: see `RunResult.require_complete`.

    Raises:
        MainstemError: The run could not begin or go on, for instance because another run holds the lease.
    """
    _require_spark()
    from framework.pipeline.run import alert_on_failure, apply_waiting, exit_code

    if through not in get_args(Through):
        raise ConfigurationError(
            "UNKNOWN_LAYER",
            found=f"through={through!r}",
            where="mainstem.run",
            action=suggested(through, get_args(Through)),
        )
    checked = checked_config(config)
    notes: list[str] = []
    with alert_on_failure(checked, notes.extend):
        reports, seconds = apply_waiting(checked, through, table, notify=notes.extend)
    return RunResult(
        exit_code=exit_code(reports),
        tables=tuple(line for report in reports for line in report.tables),
        counts={name: count for report in reports for name, count in report.counts.items()},
        failed_rules=tuple(result for report in reports for result in report.failures),
        errors=tuple(error for report in reports for error in report.errors),
        notes=(*notes, *(note for report in reports for note in report.notes)),
        seconds=seconds,
    )


def status(config: Config | str | os.PathLike[str]) -> dict[str, Any]:
    """The tables of a pipeline and the outcome of every message, as `mainstem status --json` prints them.

    A local lakehouse is read without Spark.
    """
    from framework.pipeline.session import open_tables
    from framework.pipeline.status import read_status

    with open_tables(checked_config(config)) as tables:
        return read_status(tables)


def verify(config: Config | str | os.PathLike[str]) -> list[dict[str, Any]]:
    """Check every table against the one that it is made from, as `mainstem status --verify` does.

    Returns:
        One object for each check: `name`, `promise` (what must hold), `ok`, `wrong` (how many rows, messages
        or tables break it; None where there was nothing to check), `where` and `action`.
    """
    _require_spark()
    from framework.pipeline.layer import Run
    from framework.pipeline.session import open_pipeline
    from framework.pipeline.status import run_checks

    checked = checked_config(config)
    with open_pipeline(checked, is_exclusive=False) as (lake, spark):
        checks = run_checks(Run(spark, lake, checked, "status"))
    return [{**asdict(check), "ok": check.is_ok} for check in checks]


def query(config: Config | str | os.PathLike[str], sql: str, *, limit: int = 100) -> dict[str, Any]:
    """The first rows of a read-only query over the pipeline's tables, as `mainstem sql --json` prints them.

    Returns:
        `columns` (name and type), `rows` (an object each) and `has_more`. Decimals and times are exact text,
        bytes are base64.

    Raises:
        ConfigurationError: SQL_NOT_A_QUERY for anything but one query, which does not run then.
        MainstemError: The query fails.
    """
    _require_spark()
    from framework.pipeline.session import open_pipeline
    from framework.sql.query import answer
    from framework.sql.result import document

    checked = checked_config(config)
    with open_pipeline(checked, is_exclusive=False) as (lake, spark):
        return document(answer(spark, lake, sql, limit, checked.rules))


def report(config: Config | str | os.PathLike[str]) -> Page:
    """The report on a pipeline: a notebook shows it; `html` is the page, `data` the same as values of JSON.

    A local lakehouse is read without Spark. On Databricks: `displayHTML(mainstem.report(config).html)`.
    """
    from framework.report.notebook import report_on

    return report_on(checked_config(config))


def _require_spark() -> None:
    if find_spec("pyspark") is None:
        raise spark_missing()
