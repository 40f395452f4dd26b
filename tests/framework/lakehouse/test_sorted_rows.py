"""Where the rows with the same texts are."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

from framework.lakehouse.sorted_rows import rows_by


@pytest.mark.parametrize("columns", [["a"], ["b", "a"]], ids="".join)
@pytest.mark.parametrize("count", [0, 1, 300])
def test_rows_are_where_their_texts_say(columns: list[str], count: int) -> None:
    source = random.Random(count)
    texts = [None, "", "x", "y", "é"]
    rows = [{"a": source.choice(texts), "b": source.choice(texts), "n": n} for n in range(count)]
    table = pa.Table.from_pylist(rows, pa.schema([("a", "string"), ("b", "string"), ("n", "int64")]))
    found, places = rows_by(pa.concat_tables([table.slice(0, 7), table.slice(7)]), columns)
    assert sorted(found["n"].to_pylist()) == list(range(count))
    assert sum(end - start for start, end in places.values()) == count
    for key, (start, end) in places.items():
        mine = found.slice(start, end - start).to_pylist()
        assert mine == [row for row in rows if tuple(row[name] for name in columns) == key]
