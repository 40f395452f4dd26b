"""The `quality` part of the configuration: what is refused, and what a rule comes to."""

from __future__ import annotations

import fnmatch
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from framework.config.json_schema import json_schema
from framework.config.model import Config, load_config
from framework.config.quality import Quality, QualityRule
from framework.contracts.ddl_actions import TableName
from framework.errors import ConfigurationError, MainstemError
from framework.lakehouse.lakehouse import Lakehouse
from framework.pipeline.layer import Run
from framework.quality import job
from framework.quality import layer as quality_step
from framework.quality.rules import default_rules, rule_of, unique_by_name
from silver.layer import LAYER as SILVER

HEAD = (
    "pipeline: shop\nlakehouse: ./lakehouse\nsources:\n  feed: {format: datahub_blob, files: "
    "./landing}\nquality:\n"
)


def loaded(folder: Path, text: str) -> Config:
    (folder / "mainstem.yml").write_text(HEAD + text, encoding="utf-8")
    return load_config(folder / "mainstem.yml", formats=SILVER.options())


def test_a_pattern_is_compiled_once_for_all_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[str] = []
    translate = fnmatch.translate
    monkeypatch.setattr(fnmatch, "translate", lambda part: compiled.append(part) or translate(part))
    rules = [QualityRule(match=f"compiled.once{n}_*", not_null=("id",)) for n in range(100)]
    quality = Quality(rules=tuple(rules))
    for n in range(100):
        name = TableName("compiled", None, f"once{n}_x")
        assert quality.rules_of(name) == (rules[n],)
    assert len(compiled) == 200


@pytest.mark.parametrize(
    ("text", "condition", "part"),
    [
        ("  rulez: []", "CONFIG_UNKNOWN_KEY", "rules"),
        ("  rules: [{match: a.b}]", "CONFIG_BAD_VALUE", "exactly one of"),
        ("  rules: [{match: a.b, not_null: id, unique: id}]", "CONFIG_BAD_VALUE", "exactly one of"),
        ("  rules: [{match: a.b, unique: id, gate: true}]", "CONFIG_BAD_VALUE", "row by row"),
        (
            "  rules: [{match: a.b, not_null: id, gate: true, on_change: warn}]",
            "CONFIG_BAD_VALUE",
            "two entries",
        ),
        ("  rules: [{match: a.b, range: {column: x}}]", "CONFIG_BAD_VALUE", "`min`"),
        ('  rules: [{match: a.b, range: {column: x, min: "10", max: 9}}]', "CONFIG_BAD_VALUE", "would pass"),
        (
            '  rules: [{match: a.b, regex: {column: x, pattern: "("}}]',
            "CONFIG_BAD_VALUE",
            "regular expression",
        ),
        ("  rules: [{match: a.b, not_null: id, severity: eror}]", "CONFIG_BAD_VALUE", "error"),
        ("  rules: [{match: a.b, snapshot: {format: csv}}]", "CONFIG_BAD_VALUE", "path"),
        ("  sources: {fed: 1 hour}", "CONFIG_UNKNOWN_KEY", "feed"),
        ("  sources: {feed: soon}", "CONFIG_BAD_VALUE", "10 minutes"),
    ],
)
def test_a_rule_that_cannot_be_followed_is_refused_with_what_to_write(
    tmp_path: Path, text: str, condition: str, part: str
) -> None:
    with pytest.raises(ConfigurationError) as caught:
        loaded(tmp_path, text)
    assert (caught.value.condition, part in caught.value.action) == (condition, True)


def test_editors_complete_what_is_accepted_here() -> None:
    schema = json_schema(SILVER.options())
    text = (
        HEAD + "  rules: [{match: a.b, not_null: id}, {match: a.b, freshness: 2 hours, severity: warn}]\n  "
        "sources: {feed: 1 hour}\n"
    )
    jsonschema.Draft202012Validator(schema).validate(yaml.safe_load(text))
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.Draft202012Validator(schema).validate(yaml.safe_load(text.replace("not_null", "notnull")))


@pytest.mark.parametrize(
    ("text", "is_judged", "scan"),
    [
        ("", True, "counted"),
        ("quality: {}", True, "measured"),
        ("quality: true", True, "measured"),
        ("quality: {scan: counted}", True, "counted"),
        ("quality: false", False, None),
        ("quality: {enabled: false}", False, None),
    ],
)
def test_the_step_is_the_last_of_every_run_unless_it_is_switched_off(
    tmp_path: Path, text: str, is_judged: bool, scan: str | None
) -> None:
    content = HEAD.replace("quality:\n", f"{text}\n")
    (tmp_path / "mainstem.yml").write_text(content, encoding="utf-8")
    jsonschema.Draft202012Validator(json_schema(SILVER.options())).validate(yaml.safe_load(content))
    config = load_config(tmp_path / "mainstem.yml", formats=SILVER.options())
    assert (config.is_judged, config.quality.scan if is_judged else None) == (is_judged, scan)
    assert config.quality.defaults


def test_an_error_of_the_quality_step_is_reported_beside_those_of_the_layers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(run: Run, layers: object) -> None:
        raise OSError("a file of ops/tables is gone")

    monkeypatch.setattr(job, "judge", broken)
    (tmp_path / "mainstem.yml").write_text(HEAD.replace("quality:\n", ""), encoding="utf-8")
    config = load_config(tmp_path / "mainstem.yml", formats=SILVER.options())
    (error,) = quality_step.LAYER.run(Run(None, Lakehouse(config.root), config, "run")).errors  # type: ignore[arg-type]
    assert isinstance(error, MainstemError)
    assert (error.condition, "ops/tables is gone" in error.found) == ("NOT_JUDGED", True)


def test_every_entry_that_matches_applies_and_the_later_of_one_name_wins(tmp_path: Path) -> None:
    entries = """  rules:
    - {match: "shop.*", not_null: id, severity: warn}
    - {match: shop.item, range: {column: price, min: 0}}
    - {match: other.item, not_null: x}
"""
    config = loaded(tmp_path, entries)
    found: tuple[Any, ...] = config.quality.rules_of(TableName("shop", None, "item"))
    rules = unique_by_name([*default_rules(["id"]), *map(rule_of, found)])
    assert {rule.name: str(rule.severity) for rule in rules} == {
        "not_null(id)": "warn",
        "unique(id)": "error",
        "range(price)": "error",
    }


def test_a_snapshots_relative_path_starts_at_the_configurations_folder(tmp_path: Path) -> None:
    config = loaded(tmp_path, "  rules: [{match: a.b, snapshot: {format: csv, path: dumps/b.csv}}]\n")
    snapshot = config.quality.rules[0].snapshot
    assert snapshot is not None
    assert snapshot.path == str(tmp_path / "dumps/b.csv")
