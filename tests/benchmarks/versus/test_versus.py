"""What the comparison with other tools counts as right and wrong."""

from __future__ import annotations

import sys
from datetime import datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

from tests.benchmarks.versus.check import Found, compare
from tests.benchmarks.versus.feed import TYPES, Feed, hand_out
from tests.benchmarks.versus.processes import Cost, Staying, ToolFailed, reason, run_whole
from tests.benchmarks.versus.results import Measured, page

_SCHEMA = pa.schema(
    {
        "id": pa.int64(),
        "n": pa.int64(),
        "amount": pa.decimal128(18, 4),
        "at": pa.timestamp("us"),
        **{f"s{i}": pa.string() for i in range(6)},
    }
)


def row(key: int, **cells: object) -> dict[str, object]:
    texts = {f"s{i}": f"text {i}" for i in range(6)}
    at = datetime(2024, 2, 29, 10, 0)
    return {"id": key, "n": 2**53 + 1, "amount": Decimal("1.2500"), "at": at, **texts, **cells}


EXPECTED = {
    key: {
        "id": str(key),
        "n": str(2**53 + 1),
        "amount": "1.2500",
        "at": "2024-02-29T10:00:00",
        **{f"s{i}": f"text {i}" for i in range(6)},
    }
    for key in (1, 2)
}


@pytest.mark.parametrize(
    ("rows", "wrong"),
    [
        ([row(1), row(2)], 0),
        ([row(2), row(1)], 0),
        ([row(1)], 1),
        ([row(1), row(2), row(3)], 1),
        ([row(1), row(2), row(2)], 1),
        ([row(1), row(2, n=2**53)], 1),
        ([row(1, s3=None), row(2, amount=Decimal("1.2501"))], 2),
    ],
    ids=["equal", "in any order", "one missing", "one too many", "one twice", "a lost digit", "two cells"],
)
def test_each_row_that_is_missing_too_many_or_different_is_counted(
    rows: list[dict[str, object]], wrong: int
) -> None:
    assert compare(pa.Table.from_pylist(rows, schema=_SCHEMA), EXPECTED) == Found(wrong, {})


def test_a_column_of_another_type_is_named() -> None:
    table = pa.Table.from_pylist([row(1), row(2)], schema=_SCHEMA)
    table = table.set_column(1, "n", table["n"].cast(pa.float64(), safe=False))
    assert compare(table, EXPECTED) == Found(2, {"n": "double"})


def test_a_feed_knows_the_rows_that_its_messages_make(tmp_path: Path) -> None:
    feed = Feed(tmp_path / "feed")
    assert [*feed.rows] == []
    load = feed.load(100)
    assert len(load.read_text().splitlines()) == len(feed.rows) == 100
    batch, messages = feed.batch(20)
    # 20 updates of two messages each, two deletes and two inserts
    assert len(batch.read_text().splitlines()) == messages == 44
    assert len(feed.rows) == 100
    assert [*feed.rows][-2:] == [100, 101]
    assert all(set(kept) == set(TYPES) for kept in feed.rows.values())
    before = dict(feed.rows)
    assert feed.repeated(batch).read_text() == batch.read_text()
    assert feed.rows == before


def test_a_file_is_the_same_in_each_landing_folder(tmp_path: Path) -> None:
    file = Feed(tmp_path / "feed").load(3)
    hand_out(file, [tmp_path / "one", tmp_path / "two"])
    assert (tmp_path / "one" / file.name).samefile(tmp_path / "two" / file.name)


@pytest.mark.parametrize(
    ("log", "line"),
    [
        ("", "it said nothing"),
        ("started\nready\n", "ready"),
        (
            "ready\nsome.module.ValueError: no such `table`\n",
            "no such table",
        ),
        ('debug_error_string = "UNKNOWN:class A is no interface"\n>', "class A is no interface"),
        (
            "Error: [A_CODE] no `table` | here\n    at Some.error(Some.java)\nbye\n",
            "[A_CODE] no table here",
        ),
    ],
)
def test_the_reason_of_a_failure_is_the_last_line_that_tells_of_an_error(log: str, line: str) -> None:
    assert reason(log) == line


def test_the_time_of_a_command_and_of_what_it_starts_is_measured(tmp_path: Path) -> None:
    busy = "import time\nwhile time.process_time() < 0.3: pass"
    script = f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {busy!r}], check=True)"
    cost = run_whole([sys.executable, "-c", script], tmp_path, {})
    assert cost.seconds >= 0.3
    assert 0.3 <= cost.cpu < 30
    with pytest.raises(ToolFailed, match="ValueError: no such table"):
        run_whole([sys.executable, "-c", "raise ValueError('no such table')"], tmp_path, {})


def test_a_command_that_does_not_end_is_ended(tmp_path: Path) -> None:
    with pytest.raises(ToolFailed, match="it had not ended after 1 seconds"):
        run_whole([sys.executable, "-c", "import time; time.sleep(600)"], tmp_path, {}, longest=1.0)


def test_a_process_that_stays_does_a_round_for_each_line(tmp_path: Path) -> None:
    script = "import sys\nfor _ in sys.stdin: print('noise'); print('round done', flush=True)"
    with Staying([sys.executable, "-c", script], tmp_path, {}) as staying:
        assert staying.round().seconds < 60
        assert staying.round().cpu < 60
    with (
        Staying([sys.executable, "-c", "raise ValueError('ended')"], tmp_path, {}) as ended,
        pytest.raises(ToolFailed, match="ended"),
    ):
        ended.round()


def test_the_table_shows_each_time_as_a_multiple_of_the_first_tool(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    ours = Measured("Mainstem", [Cost(4, 8)], [Cost(2, 3)], [Cost(1, 1), Cost(2, 3), Cost(9, 9)])
    other = Measured(
        "other", [Cost(2, 2)], [Cost(5, 3)], [Cost(1, 1)], Found(0, {"at": "string"}), Found(7, {})
    )
    lines = page([ours, other], {"third": "no such package"}, 1000, 220, 3).splitlines()
    assert lines[2] == (
        "| Mainstem | 1.00 (4.0 s, CPU 8.0 s) | 1.00 (2.0 s, CPU 3.0 s) | 1.00 (2.0 s, CPU 3.0 s) | 0 | 0 |"
    )
    assert lines[3] == (
        "| other | 0.50 (2.0 s, CPU 2.0 s) | 2.50 (5.0 s, CPU 3.0 s) | 0.50 (1.0 s, CPU 1.0 s) | 0 | 7 |"
    )
    assert lines[4:6] == ["| third | does not run | | | | |", ""]
    assert lines[6:] == [
        "Medians of 3, in turn, on 2 cores.",
        "third does not run: no such package",
        "other has other types: `at` as string.",
    ]
