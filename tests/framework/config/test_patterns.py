"""Which patterns of the configuration match a table, where there is one for each of many tables."""

from __future__ import annotations

from pathlib import Path

import pytest

from framework.config import tables
from framework.config.model import load_config
from framework.config.tables import Patterns
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


def test_patterns_match_in_their_order() -> None:
    patterns = ["shop.item", "shop.*", "shop.item", "*.it?m", "shop.Item", "shop.a.item", "item", "shop.[i]*"]
    found = Patterns(patterns)
    assert found.of("shop", None, "item") == [0, 1, 2, 3, 7]
    assert found.of("shop", "a", "item") == [5]
    assert found.of(None, None, "item") == [6]
    assert found.of("shop", None, "Item") == [1, 4]
