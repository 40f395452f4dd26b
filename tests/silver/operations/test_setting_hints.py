"""What the counts of new batches show of settings that do not fit a feed."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import Row

from framework.config.model import load_config
from silver.layer import LAYER
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
