"""No error of the configuration prints a secret, whatever shape the file has,
and no file keeps the reader busy.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from framework.config.model import load_config, validated_config
from framework.errors import ConfigurationError
from silver.layer import LAYER

CANARY, NUMBER = "canary-4711", 47114711

DOCUMENT: dict[str, Any] = {
    "pipeline": "shop",
    "lakehouse": "/lake/${env:SECRET}",
    "sources": {
        "crm": {
            "format": "debezium",
            "kafka": {
                "bootstrap_servers": f"user:{CANARY}@broker:9092",
                "topics": ["crm.customer"],
                "kafka.sasl.jaas.config": CANARY,
                "kafka.ssl.key.password": NUMBER,
            },
        },
        "one": {
            "format": "datahub_blob",
            "files": "/landing/${env:SECRET}",
            "timezone": "UTC",
            "pairing_timeout": "5 s",
        },
    },
    "tables": [{"match": "shop.*", "columns": {"a": {"type": "int"}}}],
    "quality": {
        "rules": [
            {
                "match": "shop.a",
                "snapshot": {
                    "format": "jdbc",
                    "options": {"url": CANARY, "dbtable": "a", "password": CANARY},
                },
            }
        ]
    },
    "alerts": [
        {"webhook": f"https://hooks.example/{CANARY}"},
        {"webhook": "https://hooks.example/${env:SECRET}", "style": "slack"},
        {"url": f"slack://{CANARY}/b/c", "about": ["parked"]},
    ],
}


def paths(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The place of every value in a document, its containers included."""
    if at:
        yield at
    for key, inner in (
        value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    ):
        yield from paths(inner, (*at, key))


def changed(at: tuple[Any, ...], change: Any) -> dict[str, Any]:
    """The document with one value replaced by what `change` makes of it."""
    document = copy.deepcopy(DOCUMENT)
    place: Any = document
    for key in at[:-1]:
        place = place[key]
    place[at[-1]] = change(place[at[-1]])
    return document


CHANGES = {
    "in a list": lambda value: [value],
    "in a mapping": lambda value: {"x": value},
    "a number": lambda value: 5.5,
    "nothing": lambda value: None,
    "a reference": lambda value: "${env:SECRET}",
    "text of a list": lambda value: "x" if isinstance(value, dict | list) else value,
}


def refusal(load: Any, file: Path) -> str | None:
    """What the error says, None where the file is accepted."""
    try:
        load(file, formats=LAYER.options(), environ={"SECRET": CANARY})
    except ConfigurationError as error:
        return str(error)
    return None


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_no_error_prints_a_secret_whatever_is_wrong(tmp_path: Path, change: Any) -> None:
    file, refusals = tmp_path / "mainstem.yml", []
    for at in paths(DOCUMENT):
        file.write_text(yaml.safe_dump(changed(at, change)))
        for load in (load_config, validated_config):
            refusals.append((at, refusal(load, file) or ""))
    assert [(at, text) for at, text in refusals if CANARY in text or str(NUMBER) in text] == []
    assert sum(bool(text) for _, text in refusals) > 5


@pytest.mark.parametrize("key", ["lakehouse", "checkpoints"])
@pytest.mark.parametrize("place", [f"s3:/AKIA:{CANARY}@bucket/x", f"dbfs:/{CANARY}", "canary4711:/bucket"])
def test_a_place_with_one_slash_is_refused_without_its_value(tmp_path: Path, key: str, place: str) -> None:
    file = tmp_path / "mainstem.yml"
    file.write_text(yaml.safe_dump({**DOCUMENT, key: "${env:SECRET}"}))
    with pytest.raises(ConfigurationError, match="slashes behind the scheme") as refused:
        load_config(file, formats=LAYER.options(), environ={"SECRET": place})
    assert "4711" not in str(refused.value)


WHOLE = """
pipeline: shop
lakehouse: ./lake
sources:
  crm: {format: debezium, kafka: {bootstrap_servers: 'b:9092', topics: [t]}}
"""


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("format: debezium", "format: 'https://CANARY'"),
        ("  crm: {", "  crm: 'kafka://user:CANARY@b'\n  two: {"),
        ("  crm: {", "  'https://CANARY': {"),
        ("format: debezium", "format: debezium, CANARY@x: 1"),
        ("format: debezium", "format: debezium, pairing_timeout: 'password CANARY'"),
        ("topics: [t]", "topics: 'user:CANARY'"),
        ("topics: [t]", "topics: CANARY"),
        ("topics: [t]", "topics: [t], kafka.sasl.password: *CANARY"),
        ("topics: [t]", "topics: [t], kafka.sasl.password: !CANARY"),
        ("topics: [t]", "topics: [t], kafka.sasl.password: !!CANARY x"),
        ("topics: [t]", "topics: [t], kafka.sasl.password: !x!CANARY x"),
        ("topics: [t]", "topics: [t], kafka.sasl.password: 'ab${CANARY}cd'"),
        ("topics: [t]", "topics: [t], kafka.sasl.password: 'ab${env:CANARY@}cd'"),
        ("topics: [t]", "topics: [t], kafka.sasl.password: {CANARY: 1, CANARY: 1}"),
        ("topics: [t]", "topics: [t], kafka.sasl.password: [&CANARY 1, &CANARY 2, *x]"),
        ("  crm: {", "  topics: {format: debezium, kafka: {kafka.sasl.password: CANARY.5}}\n  two: {"),
        ("lakehouse: ./lake", "lakehouse: ./lake\nquality: https://CANARY"),
        ("lakehouse: ./lake", "lakehouse: ./lake\nquality: CANARY"),
        ("lakehouse: ./lake", "lakehouse: ./lake\nquality: {rules: [{snapshot: {CANARY: x}}]}"),
        ("lakehouse: ./lake", "lakehouse: ./lake\nalerts: [{'https://CANARY': null}]"),
        ("lakehouse: ./lake", "lakehouse: ./lake\nalerts: [{CANARY: null}]"),
        ("lakehouse: ./lake", "lakehouse: ./lake\nalerts: {CANARY: null}"),
        ("lakehouse: ./lake", "lakehouse: ./lake\n'https://CANARY': 1"),
        ("lakehouse: ./lake", "lakehouse: 5\nalerts: [{CANARY: null}]"),
    ],
)
@pytest.mark.parametrize("canary", ["S3CR3T", "47114711"])
def test_no_error_prints_a_secret_in_an_unusual_place(
    tmp_path: Path, old: str, new: str, canary: str
) -> None:
    file = tmp_path / "mainstem.yml"
    file.write_text(WHOLE.replace(old, new.replace("CANARY", canary), 1))
    text = refusal(load_config, file)
    assert text is not None
    assert canary not in text.partition("where: ")[0] + text.partition("mainstem.yml")[2]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("format: debezium", "format: debezum", "'debezum'"),
        ("format: debezium", "fromat: debezium", "'fromat'"),
        ("format: debezium", "format: debezium, pairing_timeout: 2 huors", "'2 huors'"),
        ("format: debezium", "format: debezium, epoch: 0", "found: 0"),
        ("topics: [t]", "topic: [t]", "crm.kafka.topic (line 5, column 64)\n"),
        ("topics: [t]", "topics: [t], x: '${env:NONE}'", "${env:NONE}"),
        ("lakehouse: ./lake", "lakehouse: ./lake\nalerts: [{webhok: x}]", "'webhok'"),
        ("lakehouse: ./lake", "lakehouse: ./lake\ntables: [{match: shop.}]", "'shop.'"),
        ("lakehouse: ./lake", "lakehouse: ./lake\nlakehouse: ./lake", "the key 'lakehouse' is written twice"),
        ("lakehouse: ./lake", "lakehouse: [", "line 5"),
        ("topics: [t]", "topics: *t", "begins with '*' needs quotes"),
    ],
)
def test_an_honest_mistake_is_quoted(tmp_path: Path, old: str, new: str, said: str) -> None:
    file = tmp_path / "mainstem.yml"
    file.write_text(WHOLE.replace(old, new, 1))
    assert said in (refusal(load_config, file) or "")


@pytest.mark.parametrize("second", ["/landing", "/landing/${env:SECRET}/x"])
def test_a_place_that_two_sources_share_is_not_resolved(tmp_path: Path, second: str) -> None:
    file = tmp_path / "mainstem.yml"
    kinds = (
        [{"files": place} for place in ("/landing/${env:SECRET}", second)],
        [{"kafka": {"bootstrap_servers": "b:1", "topic_pattern": "${env:SECRET}"}}] * 2,
    )
    for places in kinds:
        both = {name: {"format": "debezium", **place} for name, place in zip("ab", places, strict=True)}
        file.write_text(yaml.safe_dump({"pipeline": "shop", "lakehouse": "./lake", "sources": both}))
        text = refusal(load_config, file) or ""
        assert ("CONFIG_SOURCES_OVERLAP" in text, CANARY in text) == (True, False)


def test_two_sources_of_one_place_are_named_as_the_file_writes_them(tmp_path: Path) -> None:
    file = tmp_path / "mainstem.yml"
    both = {name: {"format": "datahub_blob", "files": "/landing/${env:SECRET}"} for name in ("a", "b")}
    file.write_text(yaml.safe_dump({**DOCUMENT, "lakehouse": "./lake", "sources": both}))
    with pytest.raises(ConfigurationError, match=r"both read '/landing/\$\{env:SECRET\}'"):
        load_config(file, formats=LAYER.options(), environ={"SECRET": CANARY})


@pytest.mark.parametrize(
    "value",
    [
        "!!timestamp x",
        "2024-02-30",
        "!!int x",
        "!!int ''",
        "!!bool x",
        "!!float x",
        "!!binary é",
        "!!map x",
        "!!map [a]",
        "!!set [a]",
        "!!omap [a]",
        "{[a]: b}",
    ],
)
@pytest.mark.parametrize("outer", ["a: VALUE", "a:\n- {b: VALUE}"])
def test_a_value_that_its_tag_does_not_allow_is_named_with_its_place(
    tmp_path: Path, value: str, outer: str
) -> None:
    file = tmp_path / "mainstem.yml"
    file.write_text(f"pipeline: shop\n{outer.replace('VALUE', value)}\n")
    with pytest.raises(ConfigurationError) as raised:
        load_config(file, formats=LAYER.options())
    assert raised.value.condition == "CONFIG_NOT_YAML"
    assert f"line {2 + outer.count(chr(10))}, column" in raised.value.where


def _nested(first: str, repeat: str, levels: int) -> str:
    lines = [first]
    for level in range(levels):
        lines.append(f"k{level + 1}: &k{level + 1} " + repeat.format(",".join([f"*k{level}"] * 9)))
    return "\n".join(lines)


@pytest.mark.parametrize(
    "text",
    [
        "a: &a [*a]",
        "a: &a {b: {c: *a}}",
        _nested("k0: &k0 [1, 1]", "[{}]", 9),
        _nested("k0: &k0 {x: 1}", "{{<<: [{}], y: 1}}", 9),
        "[" * 20_000,
    ],
    ids=["itself", "inside itself", "aliases of aliases", "merges of merges", "depth"],
)
def test_a_file_that_repeats_itself_is_refused_at_once(tmp_path: Path, text: str) -> None:
    file = tmp_path / "mainstem.yml"
    file.write_text(text)
    begun = time.perf_counter()
    with pytest.raises(ConfigurationError) as raised:
        load_config(file, formats=LAYER.options())
    assert raised.value.condition == "CONFIG_NOT_YAML"
    assert time.perf_counter() - begun < 20


def test_an_alias_that_spares_writing_is_welcome(tmp_path: Path) -> None:
    file = tmp_path / "mainstem.yml"
    sources = "  a: &a {format: datahub_blob, files: ./a}\n  b: {<<: *a, files: ./b, timezone: UTC}\n"
    file.write_text(f"pipeline: shop\nlakehouse: ./lake\nsources:\n{sources}")
    assert load_config(file, formats=LAYER.options()).sources["b"].format == "datahub_blob"
