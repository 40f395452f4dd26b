"""A wide table's images are spread as Spark's own look-up would: by one pass, whatever they lack."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from gold.changes import wide_images
from gold.changes.wide_images import _spread, with_texts

NAMES = ("id", "name", "数量", "")
_IMAGE = st.none() | st.dictionaries(st.sampled_from((*NAMES, "other")), st.none() | st.text(max_size=3))
_MAP = pa.map_(pa.string(), pa.string())


def images(found: list[dict[str, str | None] | None]) -> pa.Array:
    return pa.array([None if image is None else list(image.items()) for image in found], _MAP)


@settings(max_examples=200, deadline=None)
@given(rows=st.lists(st.tuples(_IMAGE, _IMAGE), min_size=1, max_size=6), start=st.integers(0, 5))
def test_each_text_is_the_images_own(
    rows: list[tuple[dict[str, str | None] | None, ...]], start: int
) -> None:
    batch = pa.RecordBatch.from_arrays(
        [pa.array(range(len(rows))), images([one for one, _ in rows]), images([other for _, other in rows])],
        names=["n", "after", "before"],
    ).slice(min(start, len(rows) - 1))
    for row in _spread(batch, "after", NAMES, "before").to_pylist():
        after, before = rows[row["n"]]
        assert [row[f"t{i}"] for i in range(len(NAMES))] == [(after or {}).get(name) for name in NAMES]
        assert [row[f"h{i}"] for i in range(len(NAMES))] == [name in (before or {}) for name in NAMES]


def test_wide_and_narrow_tables_are_spread_alike(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [(1, {"a": "x", "b": None}, {"a": "y"}), (2, {"b": ""}, None), (3, None, {"b": "z", "c": "1"})]
    frame = spark.createDataFrame(rows, "n int, after map<string,string>, before map<string,string>")
    narrow = with_texts(frame, "after", ["b", "a"], marked="before")
    monkeypatch.setattr(wide_images, "WIDE", 2)
    spread = with_texts(frame, "after", ["b", "a"], marked="before")
    assert spread.columns == narrow.columns
    assert sorted(spread.collect()) == sorted(narrow.collect())
    assert [tuple(row[3:]) for row in sorted(spread.collect())] == [
        (None, "x", False, True),
        ("", None, False, False),
        (None, None, True, False),
    ]
