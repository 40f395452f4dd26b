"""Which patterns of the configuration match a table, where there is one for each of many tables."""

from __future__ import annotations

import fnmatch
import random
import time
from dataclasses import astuple
from pathlib import Path

import pytest

from framework.config import tables
from framework.config.model import load_config
from framework.config.tables import Patterns, patterns_without_table
from framework.contracts.ddl_actions import TableName
from silver.layer import LAYER

HEAD = "pipeline: shop\nlakehouse: ./lake\nsources:\n  feed: {format: canal, files: ./in}\n"
NAMES = [f"table_{number}" for number in range(100)]


def test_an_entry_for_each_table_is_not_tried_with_all_tables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With three thousand tables, each with an entry and a rule, every run took minutes for it."""
    entries = "".join(f"  - {{match: shop.{name}, keys: [{name}]}}\n" for name in NAMES)
    rules = "".join(f"    - {{match: shop.{name}, not_null: {name}}}\n" for name in NAMES)
    text = f'{HEAD}tables:\n  - {{match: "shop.*"}}\n{entries}quality:\n  rules:\n{rules}'
    (tmp_path / "mainstem.yml").write_text(text)
    config = load_config(tmp_path / "mainstem.yml", formats=LAYER.options())
    tried, matches = [], tables._matches
    monkeypatch.setattr(
        tables, "_matches", lambda pattern, parts: tried.append(parts) or matches(pattern, parts)
    )
    for name in NAMES:
        assert config.settings("feed", "shop", None, name).keys == (name,)
        assert [rule.not_null for rule in config.quality.rules_of(TableName("shop", None, name))] == [(name,)]
    assert len(tried) <= len(NAMES)


@pytest.mark.parametrize(
    ("pattern", "name"),
    [
        ("shop.{}_*", ("shop", None, "{}_7")),
        ("{}.*", ("{}", None, "item")),
        ("*.{}", ("shop", None, "{}")),
        ("{}_?.item", ("{}_7", None, "item")),
        ("shop.{}[ab]*.*", ("shop", "{}b", "item")),
    ],
)
def test_an_entry_with_wildcards_is_tried_with_few_tables(
    pattern: str, name: tuple[str | None, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With three thousand entries for shards or databases, each run tried all of them with each table."""
    wild = [pattern.format(f"part{number}") for number in range(1_000, 2_000)]
    names = [
        TableName(*(part and part.format(f"part{number}") for part in name)) for number in range(1_000, 2_000)
    ]
    tried, matches = [], tables._matches
    monkeypatch.setattr(
        tables, "_matches", lambda pattern, parts: tried.append(parts) or matches(pattern, parts)
    )
    found = Patterns(wild)
    assert [found.of(*astuple(one)) for one in names] == [[number] for number in range(1_000)]
    assert patterns_without_table([*wild, "other.*"], names) == ["other.*"]
    assert len(tried) <= 2 * len(names)


def test_patterns_are_found_as_if_each_was_tried() -> None:
    source = random.Random(7)
    texts = ["", "a", "b", "ab", "aab", "*", "a*", "?", "a?", "[ab]", "a[!b]*", "b*a"]
    patterns = [".".join(filter(None, source.choices(texts, k=3))) or "*" for _ in range(300)]
    found = Patterns(patterns)
    for _ in range(500):
        parts = [*filter(None, source.choices(["", "a", "b", "aa", "ab", "bba", "aab"], k=3))] or ["a"]
        database, schema, table = parts[0] if len(parts) > 1 else None, parts[1:-1], parts[-1]
        expected = [
            number
            for number, pattern in enumerate(patterns)
            if pattern.count(".") == len(parts) - 1
            and all(map(fnmatch.fnmatchcase, parts, pattern.split(".")))
        ]
        assert found.of(database, schema[0] if schema else None, table) == expected


def test_patterns_match_in_their_order() -> None:
    patterns = ["shop.item", "shop.*", "shop.item", "*.it?m", "shop.Item", "shop.a.item", "item", "shop.[i]*"]
    found = Patterns(patterns)
    assert found.of("shop", None, "item") == [0, 1, 2, 3, 7]
    assert found.of("shop", "a", "item") == [5]
    assert found.of(None, None, "item") == [6]
    assert found.of("shop", None, "Item") == [1, 4]


def test_a_long_name_of_a_message_takes_no_time_of_the_square_of_its_length() -> None:
    """Decoders ask for the settings of a table before a name that no database allows is refused."""
    found, name = Patterns(["shop.orders_*", "*.item"]), "x" * 300_000
    begun = time.process_time()
    assert found.of("shop", None, f"orders_{name}") == [0]
    assert found.of("shop", None, name) == []
    assert time.process_time() - begun < 1
