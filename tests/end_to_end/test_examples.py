"""The examples for schedulers: they are Python, and their commands work as they are written.

The schedulers themselves are not installed. What an example says about a command's exit codes and output is
checked with the command line's own.
"""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from framework.cli import main
from framework.demo import feeds

EXAMPLES = Path(__file__).parents[2] / "examples"
FILES = sorted(path.relative_to(EXAMPLES).as_posix() for path in EXAMPLES.rglob("*.py"))


def constant(file: str, name: str) -> Any:
    """The value of a constant of an example, which is not imported for it."""
    tree = ast.parse((EXAMPLES / file).read_text(encoding="utf-8"))
    (found,) = (
        node.value
        for node in tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == name
    )
    return ast.literal_eval(found)


def members(file: str, variable: str) -> set[str]:
    """The members that an example takes out of a variable: `t` of `t["name"]` gives `name`."""
    nodes = ast.walk(ast.parse((EXAMPLES / file).read_text(encoding="utf-8")))
    return {
        str(ast.literal_eval(node.slice))
        for node in nodes
        if isinstance(node, ast.Subscript) and ast.unparse(node.value) == variable
    }


def pipeline(folder: Path, more: str = "") -> None:
    sample = feeds.sample("oms_canal")
    assert sample is not None
    (folder / "landing").mkdir()
    (folder / "landing/feed.jsonl").write_text(sample, encoding="utf-8")
    source = "sources: {feed: {format: oms_canal, files: ./landing}}"
    (folder / "mainstem.yml").write_text(f"pipeline: pay\nlakehouse: ./lake\n{source}\n{more}", "utf-8")


@pytest.mark.parametrize("file", FILES)
def test_an_example_lets_a_person_see_to_exit_codes_that_no_attempt_repairs(file: str) -> None:
    assert constant(file, "NEEDS_A_PERSON") == (2, 3)


@pytest.mark.parametrize("file", FILES)
def test_the_commands_of_an_example_are_commands(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    for program, command, *options in constant(file, "COMMANDS").values():
        assert program == "mainstem"
        assert main([command, "--help"]) == 0
        shown = capsys.readouterr().out
        assert [option for option in options if option.startswith("--") and option not in shown] == []


def test_a_wrong_configuration_has_the_exit_code_that_the_examples_expect(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    pipeline(tmp_path, "tabels: []\n")
    assert main(constant("airflow/mainstem_dag.py", "COMMANDS")["validate"][1:]) == 2


@pytest.mark.slow
@pytest.mark.end_to_end
@pytest.mark.parametrize("file", FILES)
def test_the_commands_of_an_example_run_a_pipeline(
    file: str,
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    pipeline(tmp_path, "quality: false\n")
    printed = {}
    for name, (_, *words) in constant(file, "COMMANDS").items():
        assert main(words) == 0, name
        printed[name] = capsys.readouterr().out
    assert "mainstem_messages{" in (tmp_path / "mainstem.prom").read_text(encoding="utf-8")
    if "--json" in constant(file, "COMMANDS")["run"]:
        result = json.loads(printed["run"])
        assert members(file, "result") <= result.keys()
        assert members(file, "t") <= result["tables"][0].keys()
        assert members(file, "t")


def test_the_value_of_a_constant_is_read() -> None:
    assert constant("dagster/definitions.py", "COMMANDS")["run"] == ["mainstem", "run", "--json"]


def test_the_members_of_a_variable_are_found() -> None:
    assert members("dagster/definitions.py", "t") == {"name", "inserted", "updated", "deleted"}
