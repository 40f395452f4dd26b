"""Configurations as people get them wrong: each answer says what was found and what to write instead."""

from __future__ import annotations

from pathlib import Path

import pytest

from framework.config.model import load_config
from framework.errors import ConfigurationError
from framework.pipeline.session import option_models

HEAD = "pipeline: shop\nlakehouse: ./lakehouse\n"
SOURCE = "sources:\n  a: {format: maxwell, files: ./landing}\n"


@pytest.mark.parametrize(
    ("text", "found", "action"),
    [
        ("", "an empty file", "begin with `pipeline:`"),
        ("- a\n", "a list at the top of the file", "begin with `pipeline:`"),
        ("shop\n", "one value, and no key", "begin with `pipeline:`"),
        (f"pipeline: Shop-1\nlakehouse: ./l\n{SOURCE}", "'Shop-1'", "small letters, digits and _"),
        (
            f"pipeline: yes\nlakehouse: ./l\n{SOURCE}",
            "true, as YAML also reads yes",
            "a text here, in quotes",
        ),
        (f"{HEAD}sources:\n  - {{name: a}}\n", "a list", "a name and a colon instead of each `- `"),
        (f"{HEAD}{SOURCE}tables:\n  app.t: {{keys: [id]}}\n", "keys and values", "each entry with `- `"),
        (f"{HEAD}{SOURCE}tables:\n  - {{match: app.t, keys: id}}\n", "'id'", "entries in [brackets]"),
        (f"{HEAD}{SOURCE}tables:\n  - {{match: '^a.b.c.d'}}\n", "a value", "with * and ? for any char"),
        (
            f"{HEAD}sources:\n  a: {{format: maxwell, files: 's3:/b/in'}}\n",
            "a value",
            "behind the scheme: s3://",
        ),
        (
            f"{HEAD}{SOURCE}quality:\n  rules:\n    - {{match: a.t, range: {{column: n, min: 5, max: 1}}}}\n",
            "keys and values",
            "a `min` that is not above `max`",
        ),
        (
            f"{HEAD}{SOURCE}quality:\n  rules:\n    - {{match: a.t, accepted: {{column: n, values: []}}}}\n",
            "a list",
            "of at least 1",
        ),
    ],
)
def test_what_is_wrong_is_said_in_the_words_of_the_file(
    text: str, found: str, action: str, tmp_path: Path
) -> None:
    file = tmp_path / "mainstem.yml"
    file.write_text(text)
    with pytest.raises(ConfigurationError) as caught:
        load_config(file, formats=option_models())
    assert found in caught.value.found
    assert action in caught.value.action


@pytest.mark.parametrize(
    ("columns", "action"),
    [
        ("{type: int, encoding: hex}", "values of type int are written as base64 or text"),
        ("{type: binary, encoding: microseconds}", "are written as base64, base64url or hex"),
        (
            "{type: 'decimal(9,2)', encoding: hex}",
            "values of type decimal(9,2) are written as base64 or text",
        ),
        ("{type: date, encoding: milliseconds}", "leave `encoding` out: values of type date have none"),
        ("{encoding: hex}", "write the column's `type` beside it"),
        ("{encoding: hex, decode: utf8}", "leave `encoding` out, or write `type: binary`"),
    ],
)
def test_an_encoding_that_would_have_no_effect_is_refused(columns: str, action: str, tmp_path: Path) -> None:
    file = tmp_path / "mainstem.yml"
    file.write_text(f"{HEAD}{SOURCE}tables:\n  - {{match: a.t, columns: {{c: {columns}}}}}\n")
    with pytest.raises(ConfigurationError) as caught:
        load_config(file, formats=option_models())
    assert caught.value.condition == "CONFIG_BAD_VALUE"
    assert "tables[0].columns.c.encoding" in caught.value.where
    assert action in caught.value.action


def test_metadata_without_a_prefix_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "mainstem.yml"
    source = "sources:\n  a: {format: debezium, files: ./landing, metadata_prefix: ''}\n"
    file.write_text(HEAD + source)
    with pytest.raises(ConfigurationError) as caught:
        load_config(file, formats=option_models())
    assert caught.value.condition == "CONFIG_BAD_VALUE"
    assert "add.fields.prefix" in caught.value.action


def test_an_encoding_may_belong_to_the_type_of_another_entry(tmp_path: Path) -> None:
    file = tmp_path / "mainstem.yml"
    rules = ("a.*, columns: {c: {type: binary}}", "a.t, columns: {c: {encoding: hex}}")
    rules += ("c.t, columns: {c: {type: binary, encoding: hex, decode: utf8}}",)
    rules += ("b.t, columns: {c: {type: int}}", "b.t, columns: {d: {encoding: base64, decode: utf8}}")
    file.write_text(f"{HEAD}{SOURCE}tables:\n" + "".join(f"  - {{match: {rule}}}\n" for rule in rules))
    assert len(load_config(file, formats=option_models()).tables) == 5


def test_an_abbreviated_zone_is_not_taken_for_another_one(tmp_path: Path) -> None:
    file = tmp_path / "mainstem.yml"
    file.write_text(f"{HEAD}sources:\n  a: {{format: maxwell, files: ./landing, timezone: CEST}}\n")
    with pytest.raises(ConfigurationError) as caught:
        load_config(file, formats=option_models())
    assert "did you mean" not in caught.value.action


def test_a_folder_is_no_configuration(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError) as caught:
        load_config(tmp_path, formats=option_models())
    assert (caught.value.condition, caught.value.found) == ("CONFIG_UNREADABLE", "a folder")
    assert caught.value.action == f"name the file in it: -c {tmp_path / 'mainstem.yml'}"
