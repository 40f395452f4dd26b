"""The template for `databricks bundle init` fits the bundle, as far as tests can tell without the command."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from silver.formats import FORMATS

ROOT = Path(__file__).parents[2]
TEMPLATE = ROOT / "templates" / "pipeline"
SCHEMA: dict[str, Any] = json.loads(
    (TEMPLATE / "databricks_template_schema.json").read_text(encoding="utf-8")
)
QUESTIONS: dict[str, dict[str, Any]] = SCHEMA["properties"]
FILES = sorted(path for path in (TEMPLATE / "template").rglob("*") if path.is_file())
BUNDLE = yaml.safe_load((ROOT / "databricks.yml").read_text(encoding="utf-8"))
ACTION = re.compile(r"\{\{(.*?)\}\}", re.DOTALL)
QUESTION = re.compile(r"\.([a-z_]+)")


def answered(text: str) -> str:
    """A text whose only actions are answers, with an example for each answer."""
    return ACTION.sub(lambda match: QUESTIONS[match[1].removeprefix(".")].get("default", "12ab"), text)


def test_the_template_asks_for_the_formats_that_there_are() -> None:
    assert QUESTIONS["format"]["enum"] == sorted(FORMATS)


def test_each_default_is_an_answer_that_is_allowed() -> None:
    for name, question in QUESTIONS.items():
        default = question.get("default")
        if default is not None:
            assert default in question.get("enum", [default]), name
            assert re.search(question.get("pattern", ""), default), name
    assert [name for name, question in QUESTIONS.items() if "default" not in question] == ["warehouse_id"]


def test_questions_are_asked_in_one_order_and_a_skipped_one_follows_from_earlier_ones() -> None:
    order = [name for name, _ in sorted(QUESTIONS.items(), key=lambda item: item[1]["order"])]
    assert order == list(QUESTIONS)
    for name, question in QUESTIONS.items():
        earlier = re.findall(r"'properties': \{'(\w+)'", str(question.get("skip_prompt_if", "")))
        assert all(order.index(each) < order.index(name) for each in earlier), name


def test_the_files_use_each_question_and_no_other_name() -> None:
    texts = [
        *(path.relative_to(TEMPLATE).as_posix() for path in FILES),
        *(path.read_text(encoding="utf-8") for path in FILES),
    ]
    used = {
        name
        for text in texts
        for action in ACTION.findall(text)
        for name in QUESTION.findall(re.sub(r'"[^"]*"|/\*.*?\*/|\)\.\w+', "", action, flags=re.DOTALL))
    }
    assert used == set(QUESTIONS)


@pytest.mark.parametrize(
    "file",
    [path for path in FILES if path.name.startswith("variable-overrides")],
    ids=lambda p: p.parent.name,
)
def test_the_values_are_for_variables_of_the_bundle(file: Path) -> None:
    values = json.loads(answered(file.read_text(encoding="utf-8")))
    assert values.keys() <= BUNDLE["variables"].keys()
    needed = {"catalog", "warehouse_id"} | (
        set() if file.parent.name == "dev" else {"service_principal", "notify"}
    )
    assert needed <= values.keys()


def test_the_configuration_uses_the_names_that_the_tasks_set() -> None:
    (file,) = (path for path in FILES if path.name.endswith(".yml.tmpl"))
    settings = BUNDLE["variables"]["settings"]["default"]
    used = set(re.findall(r"\$\{env:(\w+)\}", file.read_text(encoding="utf-8")))
    assert used == {pair.strip().partition("=")[0] for pair in settings.split(",")}


def test_only_configurations_are_uploaded_with_the_bundle() -> None:
    assert BUNDLE["sync"] == {"paths": ["pipelines"]}
