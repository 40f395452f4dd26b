"""A run reads what is new, however many rounds a lakehouse has seen."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from framework.lakehouse import kept_rows, local_reader, log_files
from framework.lakehouse.local_tables import DataFile, read_files
from tests.benchmarks.lengthen import lengthen
from tests.benchmarks.scale import Pipeline
from tests.end_to_end.idle_tries import try_idle

ROUNDS = 200


@contextmanager
def counted() -> Iterator[Counter[str]]:
    """The files that this process reads of logs, and the log folders that it lists."""
    found: Counter[str] = Counter()
    open_local, listed = local_reader.open_local, log_files._newest_listed

    def opened(location: str) -> DeltaTable:
        table = open_local(location)
        found[location.partition("/lakehouse/")[2]] += len(table.file_uris())
        return table

    def read(files: Sequence[DataFile], columns: Iterable[str]) -> pa.Table | None:
        found[files[0].path.parent.name] += len(files)
        return read_files(files, columns)

    def versions(log: Path) -> int | None:
        found["listings"] += len(list(log.iterdir())) if log.is_dir() else 0
        return listed(log)

    with (
        mock.patch.object(local_reader, "open_local", opened),
        mock.patch.object(kept_rows, "read_files", read),
        mock.patch.object(log_files, "_newest_listed", versions),
    ):
        yield found


@pytest.fixture(scope="module")
def pipeline(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Pipeline:
    found = Pipeline(spark, tmp_path_factory.mktemp("old") / "pipeline", 3)
    _round(found)
    return found


def _round(pipeline: Pipeline) -> Counter[str]:
    with counted() as files:
        pipeline.land(24)
        pipeline.run()
    return files


def _files_of_changes(pipeline: Pipeline) -> int:
    return len(DeltaTable(pipeline.config.root + "/silver/changes").file_uris())


def _idle(pipeline: Pipeline) -> Counter[str]:
    with counted() as files:
        assert try_idle(pipeline.config, "quality") is not None
    return files


@pytest.mark.slow
def test_a_round_in_an_old_lakehouse_reads_no_more_files_than_one_in_a_young_one(pipeline: Pipeline) -> None:
    rounds = [_round(pipeline) for _ in range(3)]
    each = {name: max(files[name] for files in rounds) for name in set().union(*rounds)}
    young_idle = _idle(pipeline).total()
    lengthen(pipeline.work, ROUNDS)
    _round(pipeline)  # reads all of it once
    old = [_round(pipeline) for _ in range(3)]
    for files in old:
        # the log of the changes tells where the newest are: it is read once a round
        assert files.pop("silver/changes") <= _files_of_changes(pipeline) < ROUNDS * 1.5
        assert all(count <= each[name] for name, count in files.items()), (rounds, old)
    assert (idle := _idle(pipeline)).total() <= young_idle, idle
    pipeline.check(3)


@pytest.mark.slow
def test_a_run_whose_copies_do_not_fit_comes_to_the_same_tables(pipeline: Pipeline) -> None:
    lakehouse = Path(pipeline.config.root)
    for name in ("batches", "tables", "files/datahub_blob"):
        _round(pipeline)
        (lakehouse / "_mainstem/kept" / f"ops.{name.replace('/', '.')}.parquet").write_bytes(b"PAR1")
    _round(pipeline)
    shutil.rmtree(lakehouse / "_mainstem/kept")
    assert try_idle(pipeline.config, "quality") is not None
    before = lakehouse.parent / "before"
    shutil.copytree(lakehouse / "ops/tables", before)
    _round(pipeline)
    shutil.rmtree(lakehouse / "ops/tables")  # put back from a backup: gold has applied less than it seems
    shutil.copytree(before, lakehouse / "ops/tables")
    pipeline.run()
    _round(pipeline)
    pipeline.check(3)
