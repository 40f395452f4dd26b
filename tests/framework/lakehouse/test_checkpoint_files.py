from pathlib import Path

import pytest

from framework.errors import MainstemError
from framework.lakehouse.checkpoint_files import check_files

OFFSET = 'v1\n{"batchWatermarkMs":0,"conf":{}}\n{"sourceVersion":1,"index":-1}'


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """A checkpoint as Spark leaves it behind two batches."""
    for log, text in (("offsets", OFFSET), ("commits", 'v1\n{"nextBatchWatermarkMs":0}')):
        (tmp_path / log).mkdir()
        for number in (8, 9, 10):
            (tmp_path / log / str(number)).write_text(text)
            (tmp_path / log / f".{number}.crc").write_bytes(b"crc")
    (tmp_path / "metadata").write_text('{"id":"1"}')
    return tmp_path


def test_a_whole_checkpoint_and_one_that_has_not_begun_are_well(checkpoint: Path, tmp_path: Path) -> None:
    check_files(str(checkpoint), "silver")
    check_files(str(tmp_path / "none"), "silver")
    (checkpoint / "commits" / "10").unlink()
    check_files(str(checkpoint), "silver")


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("offsets/10", ""),
        ("offsets/10", OFFSET[:-3]),
        ("offsets/9", 'v1\n{"batchWatermarkMs":0}'),
        ("commits/10", "v1"),
        ("metadata", '{"id'),
        ("metadata", None),
    ],
)
def test_a_file_that_is_gone_or_cut_short_is_named_with_the_way_out(
    checkpoint: Path, file: str, text: str | None
) -> None:
    (checkpoint / file).unlink() if text is None else (checkpoint / file).write_text(text)
    with pytest.raises(MainstemError) as raised:
        check_files(str(checkpoint), "silver")
    assert raised.value.condition == "CHECKPOINT_DAMAGED"
    assert file in raised.value.found
    assert f"{checkpoint}.reset" in raised.value.action


def test_older_files_are_not_read(checkpoint: Path) -> None:
    (checkpoint / "offsets" / "8").write_text("")
    check_files(str(checkpoint), "silver")
