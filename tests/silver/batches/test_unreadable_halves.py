"""Files that this process cannot read, or that hold much, are left to Spark, not taken for empty ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from silver.batches import few_outcomes, open_halves
from silver.batches.few_outcomes import MOST_BYTES, MOST_ROWS
from silver.batches.open_halves import read_open_halves
from silver.batches.staged_files import Bound, read_few_staged, staged_updates_at
from tests.silver.batches.test_few_outcomes import changes
from tests.silver.batches.test_open_halves import filed
from tests.silver.changes.test_pairing import ANN, half, update

FEW = Bound(MOST_ROWS, MOST_BYTES)


def test_a_file_that_cannot_be_read_is_not_an_empty_one(tmp_path: Path) -> None:
    broken = tmp_path / "part.parquet"
    broken.write_bytes(b"no footer")
    assert read_few_staged([str(broken)], FEW) is None
    assert staged_updates_at([str(broken)], ["1"], FEW) is None
    empty = read_few_staged([], FEW)
    assert empty is not None
    assert empty.num_rows == 0


def test_updates_at_the_position_of_a_half_are_read_up_to_a_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [half("after", ANN, 0), *({**update(ANN, ANN, n), "half": None} for n in range(1, 7))]
    contents = filed(tmp_path / "feed", rows)
    here: Any = None
    monkeypatch.setattr(few_outcomes, "waiting_halves", lambda *_: changes([]))
    for most, found in ((6, 7), (5, None)):
        monkeypatch.setattr(open_halves, "_BOUND", Bound(most, MOST_BYTES))
        read = read_open_halves(here, here, contents)
        assert (read and read.rows.num_rows) == found


def test_halves_that_are_large_without_compression_are_not_read(tmp_path: Path) -> None:
    large = {**ANN, "name": "x" * 1_000_000}
    contents = filed(tmp_path / "feed", [half("after", large, 0)])
    assert sum(Path(file).stat().st_size for file in contents.half_files) < 100_000
    assert read_few_staged(contents.half_files, Bound(1, 100_000)) is None
    found = read_few_staged(contents.half_files, FEW)
    assert isinstance(found, pa.Table)
    assert found.num_rows == 1
