"""Runs with nothing to do start no session; whatever there is to do, a run does not take it for nothing."""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from framework.config.model import load_config
from framework.errors import ConfigurationError
from framework.pipeline.idle_run import run_idle
from framework.pipeline.run import apply_waiting
from framework.spark.no_session import SessionNeeded, no_session, require_session
from silver.layer import LAYER as SILVER
from tests.end_to_end.idle_tries import try_idle, without_open_session
from tests.end_to_end.test_blob_to_replica import Shop, item, message
from tests.end_to_end.test_identity import Topics
from tests.end_to_end.test_late_definitions import ID, definition, price, row
from tests.end_to_end.test_without_java import command

QUALITY = "quality: {scan: counted}\n"


@pytest.fixture(scope="module")
def kept(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A pipeline that has applied everything, and that every rule holds for."""
    folder = tmp_path_factory.mktemp("kept")
    shop = Shop(spark, folder, QUALITY)
    shop.land([message("INSERT", n, after=item(n, "pen", 1.5)) for n in (1, 2)])
    settle(folder)
    reports, _ = apply_waiting(shop.config, "quality")
    assert not any(report.errors or report.failures for report in reports)
    return folder


@pytest.fixture
def copy(kept: Path, tmp_path: Path) -> Path:
    """The same pipeline in another place, where it has not run: enough for what is refused before a run."""
    return shutil.copytree(kept, tmp_path / "shop")


@pytest.fixture
def folder(copy: Path) -> Path:
    """The same pipeline in another place, where it has run once more: a replica notes where it is."""
    apply_waiting(load_config(copy / "mainstem.yml", formats=SILVER.options()), "quality")
    return copy


def settle(folder: Path) -> None:
    """Files of the landing folder that nobody writes any more."""
    for file in (folder / "landing").iterdir():
        if file.stat().st_mtime > time.time() - 30:
            os.utime(file, (time.time() - 60,) * 2)


@pytest.mark.slow
def test_a_run_with_nothing_to_do_needs_no_java(folder: Path) -> None:
    for _ in range(2):
        found = command(folder, "run", "--json")
        assert found.returncode == 0, found.stderr
        assert json.loads(found.stdout)["counts"]["messages"] == 0
    assert command(folder, "run", "--through", "silver").returncode == 0


@pytest.mark.slow
def test_a_source_whose_folder_never_had_a_file_needs_no_java(folder: Path) -> None:
    (folder / "empty").mkdir()
    file = folder / "mainstem.yml"
    more = "sources:\n  late: {format: datahub_blob, files: ./empty}\n"
    file.write_text(file.read_text().replace("sources:\n", more))
    apply_waiting(load_config(file, formats=SILVER.options()), "quality")
    found = command(folder, "run")
    assert found.returncode == 0, found.stderr
    _land(folder)
    next((folder / "landing").glob("again*")).rename(folder / "empty" / "first.jsonl")
    assert command(folder, "run").returncode != 0


def _land(folder: Path) -> None:
    shutil.copy(next((folder / "landing").iterdir()), folder / "landing" / "again.jsonl")
    settle(folder)


def _change(folder: Path) -> None:
    file = next((folder / "landing").iterdir())
    file.write_text(file.read_text() + "\nx")
    settle(folder)


def _configure(text: str) -> Callable[[Path], None]:
    def write(folder: Path) -> None:
        file = folder / "mainstem.yml"
        file.write_text(file.read_text() + text)

    return write


def _remove(name: str) -> Callable[[Path], None]:
    return lambda folder: shutil.rmtree(folder / "lakehouse" / name)


TO_DO = {
    "a new file": _land,
    "a changed file": _change,
    "a new rule": _configure("tables:\n  - {match: shop.item, quality: []}\n"),
    "history is wanted": _configure("tables:\n  - {match: shop.item, history: true}\n"),
    "an unfinished erasure": lambda place: (place / "lakehouse/_mainstem/forget.unfinished").write_text("{1"),
    "errors in the newest run": lambda place: (place / "lakehouse/_mainstem/runs.failed").touch(),
    **{
        f"no {name}": _remove(name)
        for name in (
            "bronze/messages", "silver/changes", "silver/schemas", "silver/quarantine", "gold/shop/item",
            "ops/batches", "ops/tables", "ops/files/feed", "ops/runs", "ops/quality_results",
            "_mainstem/bronze", "_mainstem/silver",
        )
    },
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("what", TO_DO)
def test_what_there_is_to_do_needs_a_session(folder: Path, what: str) -> None:
    """The process finds no Java, so that it fails where it needs a session; it must not succeed."""
    TO_DO[what](folder)
    found = command(folder, "run")
    assert found.returncode != 0, found.stdout


@pytest.mark.slow
def test_a_parked_table_keeps_its_exit_code(spark: SparkSession, tmp_path: Path) -> None:
    shop = Shop(spark, tmp_path, QUALITY + "tables:\n  - {match: shop.item, schema_policy: fail}\n")
    shop.land([message("INSERT", 1, after=item(1, "pen", 1.5))])
    settle(tmp_path)
    apply_waiting(shop.config, "quality")
    shop.land([message("INSERT", 2, after={**item(2, "pen", 1.5), "more": "x"})])
    settle(tmp_path)
    for _ in range(2):
        reports, _ = apply_waiting(shop.config, "quality")
        assert [line.state for report in reports for line in report.tables] == ["PARKED"]
    assert command(tmp_path, "run").returncode == 1  # it needs a session, which that process cannot start


@pytest.mark.slow
@pytest.mark.parametrize(("severity", "code"), [("warn", 0), ("error", 3)])
def test_rules_that_fail_as_before_need_no_session(
    spark: SparkSession, tmp_path: Path, severity: str, code: int
) -> None:
    rule = f"{{match: shop.item, name: cheap, sql: price < 1, severity: {severity}}}"
    shop = Shop(spark, tmp_path, f"quality:\n  scan: counted\n  rules:\n    - {rule}\n")
    shop.land([message("INSERT", 1, after=item(1, "pen", 1.5)), "no message"])
    settle(tmp_path)
    apply_waiting(shop.config, "quality")
    reports, _ = apply_waiting(shop.config, "quality")
    failed = {result.rule for report in reports for result in report.failures}
    assert "cheap" in failed
    assert len(failed) > 1  # a message is in quarantine
    with without_open_session():
        idle = run_idle(shop.config, "run", "quality", None)
    assert idle is not None
    assert [report.failures for report in idle] == [report.failures for report in reports]
    assert command(tmp_path, "run").returncode == code
    file = tmp_path / "mainstem.yml"
    file.write_text(file.read_text() + "alerts:\n  - {webhook: 'http://127.0.0.1:9/', about: [quality]}\n")
    with without_open_session():
        tells = run_idle(load_config(file, formats=SILVER.options()), "run", "quality", None) is None
    assert tells is (severity == "error")


def test_where_a_session_is_open_it_is_used(spark: SparkSession, kept: Path) -> None:
    assert spark.version
    config = load_config(kept / "mainstem.yml", formats=SILVER.options())
    assert run_idle(config, "run", "quality", None) is None


def test_no_handler_of_errors_hides_that_a_session_is_needed() -> None:
    assert not issubclass(SessionNeeded, Exception)
    session = no_session()
    for use in (lambda: session.read, lambda: session.sql("x"), lambda: require_session(session)):
        with pytest.raises(SessionNeeded):
            use()
    require_session(sys)  # type: ignore[arg-type]  # anything else is a session


def test_the_lakehouse_of_another_pipeline_is_refused(copy: Path) -> None:
    text = (copy / "mainstem.yml").read_text()
    (copy / "mainstem.yml").write_text(text.replace("pipeline: shop", "pipeline: other"))
    found = command(copy, "run")
    assert found.returncode == 1
    assert "LAKEHOUSE_TAKEN" in found.stderr or "JAVA" in found.stderr


@pytest.mark.slow
def test_a_table_that_nobody_knows_is_refused_at_once_where_nothing_waits(folder: Path) -> None:
    found = command(folder, "run", "--table", "shop.itme")
    assert found.returncode == 2
    assert "error: TABLE_UNKNOWN\n  found: no table 'shop.itme'\n" in found.stderr
    assert "(did you mean shop.item?)" in found.stderr


@pytest.mark.slow
def test_a_table_that_nobody_knows_is_told_before_what_waits_is_decoded(folder: Path) -> None:
    config = load_config(folder / "mainstem.yml", formats=SILVER.options())
    (folder / "landing/new.jsonl").write_text(json.dumps(message("INSERT", 9, after=item(9, "ink", 1.0))))
    settle(folder)
    notes: list[str] = []
    with pytest.raises(ConfigurationError, match="TABLE_UNKNOWN"):
        apply_waiting(config, "gold", "shop.itme", notify=notes.extend)
    assert notes[0].startswith("no table 'shop.itme' is known yet (did you mean shop.item?): all that waits")
    assert apply_waiting(config, "gold", "shop.item")[0][-1].tables[0].inserted == 1


def test_a_plan_for_a_table_that_nobody_knows_says_so_before_spark_starts(copy: Path) -> None:
    (copy / "landing/new.jsonl").write_text(json.dumps(message("INSERT", 9, after=item(9, "ink", 1.0))))
    settle(copy)
    found = command(copy, "plan", "--table", "shop.itme")
    assert "note: no table 'shop.itme' is known yet (did you mean shop.item?)" in found.stderr
    assert "JAVA_NOT_FOUND" in found.stderr


def test_an_excluded_table_is_refused_before_anything_is_decoded(copy: Path) -> None:
    file = copy / "mainstem.yml"
    file.write_text(file.read_text() + "tables: [{match: shop.tmp_*, exclude: true}]\n")
    (copy / "landing/new.jsonl").write_text(json.dumps(message("INSERT", 9, after=item(9, "ink", 1.0))))
    settle(copy)
    with pytest.raises(ConfigurationError, match="TABLE_EXCLUDED"):
        apply_waiting(load_config(file, formats=SILVER.options()), "gold", "shop.tmp_1")
    assert json.loads(command(copy, "status", "--json").stdout)["messages"] == 2


@pytest.mark.slow
def test_a_source_whose_encodings_are_recorded_needs_no_session(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    topics = Topics(tmp_path, capsys, {"landing": "format: debezium"})
    topics.land("landing", [definition(0, 50, ID, price(2)), row(0, {"id": 1, "price": "AOM="})])
    settle(tmp_path)
    for _ in range(2):
        assert topics.command("run")[0] == 0
    assert (tmp_path / "lakehouse/ops/encodings").exists()
    assert try_idle(load_config(tmp_path / "mainstem.yml", formats=SILVER.options())) is not None
