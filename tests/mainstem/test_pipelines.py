"""The functions on a pipeline: what they refuse, what a result means, and the page about them,
which is run.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import mainstem
from framework.contracts.quality import QualityResult
from framework.pipeline.layer import TableLine

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "python.md").read_text(encoding="utf-8")
CONFIG = """pipeline: shop
lakehouse: ./lakehouse
sources:
  orders: {format: maxwell, files: ./landing}
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder, with a configuration and an empty landing folder."""
    (tmp_path / "landing").mkdir()
    (tmp_path / "mainstem.yml").write_text(CONFIG, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def examples(section: str) -> Iterator[str]:
    (text,) = (part for part in PAGE.split("\n## ") if part.startswith(section))
    yield from re.findall(r"```python\n(.*?)```", text, re.DOTALL)


def result(exit_code: int, *lines: TableLine, errors: tuple[Exception, ...] = ()) -> mainstem.RunResult:
    return mainstem.RunResult(exit_code, lines, {}, (), errors, (), 1.0)


def test_a_complete_run_is_returned_and_an_incomplete_one_raises_with_its_tables() -> None:
    complete = result(0, TableLine("shop.orders", "ok", 1))
    assert complete.require_complete() is complete
    parked = result(3, TableLine("shop.orders", "ok", 1), TableLine("shop.item", "PARKED"))
    with pytest.raises(mainstem.MainstemError) as raised:
        parked.require_complete()
    assert (raised.value.condition, raised.value.found) == ("RUN_INCOMPLETE", "parked: shop.item")


def test_an_incomplete_run_names_errors_of_sources_and_broken_rules() -> None:
    failed = result(1, errors=(mainstem.MainstemError("SOURCE_RESET", found="a", where="b", action="c"),))
    with pytest.raises(mainstem.MainstemError, match="RUN_INCOMPLETE") as raised:
        failed.require_complete()
    assert raised.value.found == "SOURCE_RESET"


def test_every_public_name_is_on_the_page_and_every_function_of_the_page_is_public() -> None:
    assert {name for name in mainstem.__all__ if not hasattr(mainstem, name)} == set()
    functions = re.findall(r"^\| `(\w+)\(", PAGE, re.MULTILINE)
    assert set(functions) == {name for name in mainstem.__all__ if name[0].islower()}
    assert {name for name in mainstem.__all__ if name not in PAGE} == set()


def test_the_module_is_the_command_line() -> None:
    command = [sys.executable, "-m", "mainstem", "--version"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout == f"mainstem {mainstem.__version__}\n"


def test_without_spark_an_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    monkeypatch.setitem(sys.modules, "pyspark", None)
    with pytest.raises(mainstem.MainstemError) as raised:
        mainstem.run("mainstem.yml")
    assert raised.value.condition == "PYSPARK_MISSING"
    assert "extra `local`" in raised.value.action


def test_an_unknown_layer_is_refused_before_anything_starts(folder: Path) -> None:
    through: Any = "golden"
    with pytest.raises(mainstem.ConfigurationError) as raised:
        mainstem.run("mainstem.yml", through=through)
    assert raised.value.condition == "UNKNOWN_LAYER"
    assert "did you mean 'gold'?" in raised.value.action
    assert not (folder / "lakehouse").exists()


def test_detect_names_the_format_of_a_file(folder: Path) -> None:
    (folder / "feed.jsonl").write_text(str(next(values()).replace("\n", " ")), encoding="utf-8")
    found = mainstem.detect(folder / "feed.jsonl")
    assert [each["name"] for each in found["formats"]] == ["maxwell"]
    with pytest.raises(mainstem.ConfigurationError, match="NO_SUCH_PATH"):
        mainstem.detect(folder / "none.jsonl")


def values() -> Iterator[str]:
    """The messages of the page."""
    yield from re.findall(r'message = """(.*?)"""', PAGE, re.DOTALL)


def test_the_examples_without_spark_do_what_the_page_says(folder: Path) -> None:
    names: dict[str, Any] = {}
    blocks = list(examples("Without Spark"))
    assert len(blocks) == 3
    for block in blocks:
        exec(compile(block, "docs/python.md", "exec"), names)
    assert names["change"].after == {"id": "1", "total": "12.50"}


@pytest.mark.slow
def test_the_examples_of_a_pipeline_do_what_the_page_says(
    spark: SparkSession, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "landing" / ".orders").write_text(next(values()).replace("\n", " "), encoding="utf-8")
    (folder / "landing" / ".orders").rename(folder / "landing" / "orders.jsonl")
    planned = mainstem.plan("mainstem.yml")
    assert [(table["table"], table["action"]) for table in planned["tables"]] == [("orders", "create")]
    names: dict[str, Any] = {}
    for block in examples("A pipeline"):
        exec(compile(block, "docs/python.md", "exec"), names)
    assert capsys.readouterr().out == "0 [('shop.orders', 'ok', 1)]\n"
    assert all(isinstance(each, QualityResult) for each in names["result"].failed_rules)
    status = mainstem.status("mainstem.yml")
    assert (status["messages"], status["changes"]) == (1, 1)
    assert [(table["table"], table["rows"]) for table in status["tables"]] == [("orders", 1)]
    page = mainstem.report("mainstem.yml")
    assert page.data["totals"]["rows"] == 1
