"""What the counts of new batches show of settings that do not fit a feed."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql import Row

from framework.config.model import load_config
from silver.batches.encodings import EncodingRow, Encodings
from silver.layer import LAYER
from silver.operations import setting_hints
from silver.operations.setting_hints import refusals


def count(kind: str, rows: int, reason: str | None = None, source: str = "feed") -> Row:
    return Row(source=source, kind=kind, reason=reason, rows=rows)


@pytest.mark.parametrize(
    ("counts", "note"),
    [
        ([count("row", 5)], None),
        ([count("row", 5), count("quarantined", 9, "not_json")], None),
        ([count("quarantined", 9, "not_json", "other")], None),
        ([count("quarantined", 9, "not_json")], "no message can be decoded as canal; `mainstem detect` on"),
        ([count("quarantined", 1, "unpaired_before_image")], None),
        ([count("quarantined", 9, "rule_broken")], None),
        ([count("row", 5), count("quarantined", 2, "key_not_in_image")], "2 rows lack a column of the key"),
    ],
)
def test_a_format_or_key_that_does_not_fit_is_told(
    tmp_path: Path, counts: list[Row], note: str | None
) -> None:
    file = tmp_path / "mainstem.yml"
    file.write_text("pipeline: p\nlakehouse: ./lake\nsources:\n  feed: {format: canal, files: ./landing}\n")
    found = refusals(load_config(file, formats=LAYER.options()), counts)
    assert len(found) == (note is not None)
    assert (note or "") in "".join(found)


def test_the_counts_are_gone_through_once_for_all_sources(tmp_path: Path) -> None:
    """For each source again, a thousand sources made a million looks."""
    file, names = tmp_path / "mainstem.yml", ("a", "b", "c")
    sources = "".join(f"  {name}: {{format: canal, files: ./{name}}}\n" for name in names)
    file.write_text(f"pipeline: p\nlakehouse: ./lake\nsources:\n{sources}")
    counts = iter([count("quarantined", 9, "not_json", name) for name in names])
    found = refusals(load_config(file, formats=LAYER.options()), counts)
    assert [note.split(":")[0] for note in found] == ["source a", "source b", "source c"]


@pytest.mark.parametrize(
    ("settings", "kind", "note"),
    [
        ("", "tombstones", "tombstones follow no delete"),
        ("", "transactions", "several changes have one position"),
        ("", "decimals", None),
        (", tombstones: delete", "tombstones", None),
        (", tombstones: delete", "transactions", "write `compressed_transactions: true` for the source"),
        (", compressed_transactions: true", "transactions", None),
        (", compressed_transactions: true", "tombstones", "write `tombstones: delete` for the source"),
    ],
)
def test_a_setting_that_messages_have_shown_to_be_missing_is_told_until_it_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: str, kind: str, note: str | None
) -> None:
    file = tmp_path / "mainstem.yml"
    sources = (f"feed: {{format: debezium, files: ./a{settings}}}", "other: {format: canal, files: ./b}")
    file.write_text("pipeline: p\nlakehouse: ./lake\nsources:\n  " + "\n  ".join(sources))
    run: Any = SimpleNamespace(config=load_config(file, formats=LAYER.options()), spark=None, lake=None)
    rows = [EncodingRow(name, "shown", kind, "x", 0) for name in ("feed", "other", "gone")]
    monkeypatch.setattr(setting_hints, "read_encodings", lambda *_: Encodings(tuple(rows)))
    new = [count("row", 5), count("row", 5, source="other"), count("row", 5, source="gone")]
    found = setting_hints._shown_settings(run, new)
    assert len(found) == (note is not None)
    assert (note or "") in "".join(found)
    assert setting_hints._shown_settings(run, new[1:]) == ()
