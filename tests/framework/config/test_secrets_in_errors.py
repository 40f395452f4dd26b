"""No error of the configuration prints a secret, whatever shape the file has, and no file keeps the reader busy."""

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


def test_two_sources_of_one_place_are_named_as_the_file_writes_them(tmp_path: Path) -> None:
    file = tmp_path / "mainstem.yml"
    both = {name: {"format": "datahub_blob", "files": "/landing/${env:SECRET}"} for name in ("a", "b")}
    file.write_text(yaml.safe_dump({**DOCUMENT, "lakehouse": "./lake", "sources": both}))
    with pytest.raises(ConfigurationError, match=r"both read '/landing/\$\{env:SECRET\}'"):
        load_config(file, formats=LAYER.options(), environ={"SECRET": CANARY})


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
