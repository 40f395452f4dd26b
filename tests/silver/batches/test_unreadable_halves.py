"""Files of halves that this process cannot read are left to Spark, not taken for empty ones."""

from __future__ import annotations

from pathlib import Path

from silver.batches.staged_files import read_few_staged


def test_a_file_that_cannot_be_read_is_not_an_empty_one(tmp_path: Path) -> None:
    broken = tmp_path / "part.parquet"
    broken.write_bytes(b"no footer")
    assert read_few_staged([str(broken)]) is None
    empty = read_few_staged([])
    assert empty is not None
    assert empty.num_rows == 0
