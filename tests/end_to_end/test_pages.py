"""The commands of the start pages and of the cookbook run as written, and print what the pages show."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from framework.cli import main
from tests.architecture.page_script import Block, blocks, commands, missing_lines

ROOT = Path(__file__).parents[2]
START = ROOT / "docs/start"
COOKBOOK = ROOT / "docs/cookbook.md"
PAGES = sorted(path.stem for path in START.glob("*.md") if path.stem != "index")
SPARK = {"plan", "run", "sql", "status", "trace", "report", "maintain", "seed", "dismiss", "forget"}
"""Commands that start Spark."""


def run_page(page: Path, output: pytest.CaptureFixture[str], *, left_out: set[str]) -> list[str]:
    """Write the files of a page and run its commands in the working folder, and compare what they print.

    Returns the commands that ran, without those in `left_out`, whose output is not compared.
    """
    ran, printed = [], ""
    for block in blocks(page):
        if re.fullmatch(r"[\w/.-]+\.(yml|jsonl|csv)", block.title):
            Path(block.title).parent.mkdir(parents=True, exist_ok=True)
            Path(block.title).write_text(block.text, encoding="utf-8")
        elif block.language == "sh":
            printed = ""
            for command in commands(block.text):
                program, *words = command.words
                if program == "mkdir":
                    Path(words[-1]).mkdir(parents=True, exist_ok=True)
                    continue
                assert program == "mainstem", f"{page.name}:{block.line}: {program} is not run by this test"
                if words[0] in left_out:
                    printed = ""
                    continue
                code = main(words)
                captured = output.readouterr()
                assert code == 0, f"{page.name}:{block.line}: {' '.join(words)}\n{captured.err}"
                if command.target is not None:
                    Path(command.target).write_text(captured.out, encoding="utf-8")
                printed = captured.out
                ran.append(words[0])
        elif block.language == "text":
            compare(page, block, printed, is_complete=not left_out)
    return ran


def compare(page: Path, block: Block, printed: str, *, is_complete: bool) -> None:
    """Check the output that a page shows; an empty one is that of a command that was left out."""
    if printed or is_complete:
        missing = missing_lines(block.text, printed)
        assert missing == [], f"{page.name}:{block.line}: not printed\n{printed}"


@pytest.mark.parametrize("name", PAGES)
def test_the_configuration_of_a_page_is_valid_and_its_sample_is_detected(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    ran = run_page(START / f"{name}.md", capsys, left_out=SPARK)
    assert {"formats", "detect"} <= set(ran)


@pytest.mark.end_to_end
@pytest.mark.long
@pytest.mark.parametrize("name", PAGES)
def test_the_commands_of_a_page_lead_to_its_first_table(
    name: str,
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    ran = run_page(START / f"{name}.md", capsys, left_out=set())
    assert {"run", "sql"} <= set(ran)


def test_the_configurations_of_the_cookbook_are_valid(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert "validate" in run_page(COOKBOOK, capsys, left_out=SPARK)


@pytest.mark.end_to_end
@pytest.mark.long
def test_the_story_of_the_cookbook_is_true(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    ran = run_page(COOKBOOK, capsys, left_out=set())
    assert {"run", "sql", "trace", "seed", "forget"} <= set(ran)
