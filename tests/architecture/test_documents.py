"""What the project's pages and its files for contributors name exists: commands, options, targets, files."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from framework.cli.parser import command_line
from framework.contracts import table_names
from framework.contracts.events import ControlKind, Op
from gold.planning.table_state import State

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    path.relative_to(ROOT).as_posix()
    for pattern in ("*.md", "docs/**/*.md", ".github/**/*.yml", ".github/*.md")
    for path in ROOT.glob(pattern)
    if path.name != "CHANGELOG.md"
)


def commands() -> dict[str, set[str]]:
    """The options of each command."""
    return {
        name: {option for parameter in command.params for option in parameter.opts}
        for name, command in command_line().commands.items()
    }


def commands_in(text: str) -> Iterator[tuple[str, list[str]]]:
    """The commands that a text shows in backquotes or on a line of their own, with their long options."""
    shown = re.findall(r"`(?:\.venv/bin/)?mainstem ([a-z][^`]*)`", text)
    shown += re.findall(r"^ *(?:\$ )?mainstem ([a-z][^#\n]*)", text, re.MULTILINE)
    for arguments in shown:
        unquoted = re.sub(r'"[^"]*"', "", arguments)
        yield unquoted.split()[0], re.findall(r"(?<!\S)--[a-z-]+", unquoted)


def test_a_command_is_found_with_its_options() -> None:
    assert list(commands_in("run `mainstem status --verify` or\n    mainstem sql - --limit 9 < q.sql")) == [
        ("status", ["--verify"]),
        ("sql", ["--limit"]),
    ]


@pytest.mark.parametrize("page", PAGES)
def test_the_commands_on_a_page_exist_with_their_options(page: str) -> None:
    known = commands()
    unknown = [
        (name, option)
        for name, options in commands_in((ROOT / page).read_text(encoding="utf-8"))
        for option in (options or [""])
        if name not in known or (option and option not in known[name])
    ]
    assert unknown == []


@pytest.mark.parametrize("page", PAGES)
def test_the_targets_on_a_page_are_those_of_the_makefile(page: str) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    named = set(re.findall(r"`make ([a-z-]+)", (ROOT / page).read_text(encoding="utf-8")))
    assert named - targets == set()


@pytest.mark.parametrize("page", PAGES)
def test_the_links_of_a_page_lead_to_files(page: str) -> None:
    links = re.findall(r"\]\(([^)#\s]+)[^)]*\)", (ROOT / page).read_text(encoding="utf-8"))
    hosted = {"../security/advisories/new"}  # as a browser resolves it beside the form, at issues/new
    places = [link for link in links if not re.match(r"\w+://|mailto:", link) and link not in hosted]
    assert [link for link in places if not (ROOT / page).parent.joinpath(link).exists()] == []


@pytest.mark.parametrize("page", PAGES)
def test_the_files_of_the_code_that_a_page_names_exist(page: str) -> None:
    named = re.findall(
        r"\b((?:mainstem|bronze|silver|gold|framework|tests)/[\w/]*\w\.py)\b",
        (ROOT / page).read_text("utf-8"),
    )
    invented = {"silver/formats/acme.py"}  # the format that CONTRIBUTING.md adds
    assert [name for name in named if name not in invented and not (ROOT / name).is_file()] == []


def test_the_page_on_the_architecture_names_every_room_and_every_table() -> None:
    page = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
    rooms = {
        path.parent.relative_to(ROOT).as_posix()
        for layer in ("bronze", "silver", "gold", "framework")
        for path in (ROOT / layer).glob("*/__init__.py")
    }
    assert {room for room in rooms if f"`{room}/`" not in page} == set()
    tables = {value for name, value in vars(table_names).items() if name.endswith("_TABLE")}
    assert {table for table in tables if table not in page} == set()


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").split()) <= 1_200


def test_the_glossary_explains_each_kind_operation_and_state() -> None:
    page = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
    words = page.partition("\n## Words\n")[2].lower()
    named = {
        *Op,
        *ControlKind,
        *(state.replace("_", "-") for state in State if state in ("parked", "append_only")),
    }
    assert {word for word in named if word not in words} == set()


def test_continuous_integration_runs_what_a_contributor_runs_and_may_only_read() -> None:
    workflow: dict[str, Any] = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text(encoding="utf-8"))
    assert workflow["permissions"] == {"contents": "read"}
    (job,) = workflow["jobs"].values()
    assert [step["run"] for step in job["steps"] if "run" in step] == [".ci/run"]
    uses = [step["uses"] for step in job["steps"] if "uses" in step]
    assert [use for use in uses if not re.fullmatch(r"actions/[a-z-]+@v\d+", use)] == []
    called = re.search(r"for target in (.*); do", (ROOT / ".ci/run").read_text(encoding="utf-8"))
    assert called is not None
    assert called[1].split() == ["lint", "docs", "test", "test-kafka", "demo", "test-slow"]


def test_slow_tests_that_have_not_begun_when_their_time_is_up_are_listed_as_skipped() -> None:
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider"]
    until = {"MAINSTEM_SLOW_UNTIL": "1"}
    done = subprocess.run(
        [*command, "tests/framework/sql/test_query.py", "-m", "slow"],
        cwd=ROOT, env=os.environ | until, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    assert re.search(
        r"^SKIPPED \[\d+\].*: the time for slow tests is up, before .*::test_", done.stdout, re.MULTILINE
    )
    assert "passed" not in done.stdout


def test_the_hooks_before_a_commit_have_the_versions_of_the_lock() -> None:
    config = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))
    assert [repository["repo"] for repository in config["repos"]] == ["local"]
    hooks = {hook["id"]: hook for repository in config["repos"] for hook in repository["hooks"]}
    assert {hook["language"] for hook in hooks.values()} == {"system"}
    programs = {hook["entry"].split()[0] for hook in hooks.values()}
    assert programs == {"make", ".venv/bin/ruff"}


@pytest.mark.parametrize(
    "form", sorted(path.name for path in (ROOT / ".github/ISSUE_TEMPLATE").glob("[!c]*.yml"))
)
def test_each_part_of_an_issue_form_has_a_name_and_a_label(form: str) -> None:
    content = yaml.safe_load((ROOT / ".github/ISSUE_TEMPLATE" / form).read_text(encoding="utf-8"))
    assert {"name", "description", "labels", "body"} <= content.keys()
    parts = [part for part in content["body"] if part["type"] != "markdown"]
    assert all(part["attributes"]["label"] for part in parts)
    assert len({part["id"] for part in parts}) == len(parts)
