"""A dump's cells as the feed writes its own, and positions as people write them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from framework.config.model import load_config
from framework.contracts.events import Column
from framework.contracts.seed import NOTE, SEED, SEEDED, TOPIC, Seed, header_text, seed_of_header
from framework.contracts.table_names import CHANGES_TABLE, SCHEMAS_TABLE
from framework.contracts.table_schemas import MESSAGES
from framework.errors import ConfigurationError
from framework.lakehouse.lakehouse import Lakehouse
from silver.batches.run_state import RunState
from silver.batches.seed_plans import plans_with_seeds, refuse_other_shape, sequence_at
from silver.changes.seed_rows import text_as
from silver.layer import LAYER
from silver.values.sequence import sequence_of
from tests.silver.changes.test_decode import normalized, plan


@pytest.mark.parametrize(
    ("text", "own", "target", "expected"),
    [
        ("2024-02-29 10:00:00", None, "timestamp_ntz", "2024-02-29T10:00:00"),
        ("2024-02-29 10:00:00", None, "timestamp", "2024-02-29T02:00:00Z"),
        ("2024-02-29 10:00:00.500+02", None, "timestamp", "2024-02-29T08:00:00.500Z"),
        ("2024-02-29T08:00:00Z", None, "timestamp", "2024-02-29T08:00:00Z"),
        ("2024-02-29T02:00:00Z", "timestamp", "timestamp_ntz", "2024-02-29T10:00:00"),
        ("2024-02-29T10:00:00", "timestamp_ntz", "timestamp", "2024-02-29T02:00:00Z"),
        ("2024-02-29T00:00:00", "timestamp_ntz", "date", "2024-02-29"),
        ("2024-02-29", None, "date", "2024-02-29"),
        ("0000-00-00", None, "date", "0000-00-00"),
        ("true", "boolean", "tinyint", "1"),
        ("f", None, "boolean", "false"),
        ("1", None, "boolean", "true"),
        ("1E+2", None, "decimal(10,2)", "100"),
        ("5.0000", "decimal(38,4)", "int", "5"),
        ("9.90", None, "decimal(10,2)", "9.90"),
        ("\\x6869", None, "binary", "aGk="),
        ("aGk=", "binary", "binary", "aGk="),
        ("007", None, "string", "007"),
        ("007", None, None, "007"),
        ("no time", None, "timestamp", "no time"),
        (None, None, "int", None),
    ],
)
def test_a_cell_is_written_as_its_feed_writes_it(
    text: str | None, own: str | None, target: str | None, expected: str | None
) -> None:
    assert text_as(text, own, target, "Asia/Shanghai") == expected


@pytest.mark.parametrize(
    ("position", "numbers"),
    [
        ("4711", (4711,)),
        (" 3:1547 ", (3, 1547)),
        ("mysql-bin.000003:1547", (3, 1547)),
        ("16/B374D848", (0x16B374D848,)),
    ],
)
def test_a_seed_stands_behind_all_that_its_position_begins_and_before_the_next(
    position: str, numbers: tuple[int, ...]
) -> None:
    found = sequence_at(position, 2)
    at, following = sequence_of(2, numbers, None), sequence_of(2, (*numbers[:-1], numbers[-1] + 1), None)
    for below in (
        at,
        sequence_of(2, (*numbers, 9, 9), None),
        sequence_of(2, numbers, ("zzz", 9, 9, 9)),
        sequence_of(1, (10**9,), None),
    ):
        assert below < found
    assert found < following
    assert sequence_at(at, 2) == sequence_at(found, 7) == found


@pytest.mark.parametrize("position", ["", "abc", "-1", "1.5", "3:", "16/XYZ", "012.011.0250"])
def test_what_is_no_position_is_refused(position: str) -> None:
    with pytest.raises(ConfigurationError, match="SEED_POSITION"):
        sequence_at(position, 1)


@pytest.mark.parametrize(
    ("position", "newest", "is_refused"),
    [
        ("4711", "binlog 000007:100", True),
        ("16/B374D848", "binlog 000007:100", True),
        ("4711", "epoch 2, binlog 000007:100", True),
        ("7:90", "binlog 000007:100", False),
        ("mysql-bin.000007:90", "binlog 000007:100", False),
        ("mysql-bin.000007:90", "position 4800", True),
        ("mysql-bin.000007:90", "position 26885920:0:0:0:1", True),
        ("mysql-bin.000007:90", "position 2500000:2499990:7", True),
        ("mysql-bin.1000000:90", "position 1000000:196800:0:0:1", False),
        ("mysql-bin.999999:90", "epoch 2, position 1000001:4:0:0:1", False),
        ("4711", "position 4800", False),
        ("16/B374D848", "position 98000000000", False),
        ("1709200800000:3", "position 1709200800000", False),
        ("011.011.0210", "binlog 000007:100", False),
    ],
)
def test_a_position_has_the_shape_of_those_of_the_feed(position: str, newest: str, is_refused: bool) -> None:
    if is_refused:
        with pytest.raises(ConfigurationError, match="SEED_POSITION"):
            refuse_other_shape(position, newest)
    else:
        refuse_other_shape(position, newest)


def test_a_header_tells_its_seed() -> None:
    seed = Seed(
        "feed", "shop", None, "数量 ; --", "011.011.0210~", ("id", "n"), {"id": "bigint", "note": None}
    )
    assert seed_of_header(header_text(seed)) == seed

    def header_with(**parts: object) -> bytes:
        return json.dumps(json.loads(header_text(seed)) | parts).encode()

    assert seed_of_header(header_with()) == seed
    malformed = [
        header_with(source=1),
        header_with(key=[]),
        header_with(key="id"),
        header_with(key=[1]),
        header_with(table=None),
        header_with(sequence="zzz"),
        header_with(columns=[]),
    ]
    injected = [
        header_with(columns={"c": kind})
        for kind in ("string COMMENT 'x', injected INT", "decimal(39,0)", "decimal(2,3)", "INT", "", 1)
    ]
    odd = [
        header_with(table="\ud800"),
        b"[" * 90_000,
        header_with(sequence="011.011.0210"),
        header_with(sequence="011.011.0210~\n"),
    ]
    for broken in (b"", b"[]", b"{}", b'{"source": "feed"}', b"\xff", *malformed, *injected, *odd):
        with pytest.raises(ValueError, match="no seed"):
            seed_of_header(broken)


ITEM = Seed(
    "feed",
    "shop",
    None,
    "item",
    "011.011.0210~",
    ("id",),
    {"id": "bigint", "sold": "timestamp", "size": "string"},
)


def seeded(*values: bytes, header: bytes = header_text(ITEM)) -> list[dict[str, object]]:
    known = {
        ITEM.identity: {
            "sold": Column(type="date", declared="DATE"),
            "id": Column(type="int", declared="INT"),
        }
    }
    return normalized(
        values,
        replace(plan(leave_out=["hidden"]), seeds=known),
        headers=[{"key": SEED, "value": header}],
        topic=f"{TOPIC}item/1",
        file="item.csv",
    )


def test_a_row_of_a_dump_is_a_change_at_the_seeds_position_with_the_feeds_types() -> None:
    one, repeated, other = seeded(
        b'{"id": "1", "sold": "2024-02-29T00:00:00Z", "size": null}',
        b'{"id": "1", "sold": null, "size": "L"}',
        b'{"id": "2", "sold": null, "size": "L"}',
    )
    assert (one["kind"], one["op"], one["reason"], one["partial"], one["before"]) == (
        "row",
        "read",
        SEEDED,
        False,
        None,
    )
    assert one["sequence"] == one["position"] == "011.011.0210~"
    assert one["after"] == {"id": "1", "sold": "2024-02-29", "size": None}
    columns = json.loads(str(one["columns"]))
    assert columns == [
        ["sold", "date", "DATE", None],
        ["id", "int", "INT", None],
        ["size", "string", None, None],
    ]
    assert one["change_id"] == repeated["change_id"] != other["change_id"]


def test_a_message_that_is_no_row_of_a_dump_has_its_outcome_too() -> None:
    kinds = [
        row["kind"] for row in seeded(b"no row", b"[]", b'{"id": 1}', b"\xff", b"[" * 90_000, b'{"id": "1"}')
    ]
    assert kinds == ["quarantined"] * 5 + ["row"]
    assert [row["kind"] for row in seeded(b'{"id": "1"}', header=b"{}")] == ["quarantined"]
    forged = header_text(ITEM).replace(b'"item"', b'["item"]')
    assert [row["kind"] for row in seeded(b'{"id": "1"}', header=forged)] == ["quarantined"]
    assert [
        row["kind"] for row in seeded(b'{"id": "1"}', header=header_text(replace(ITEM, table="hidden")))
    ] == ["excluded"]


@pytest.mark.slow
@pytest.mark.parametrize("was_seeded", [False, True])
def test_messages_without_a_row_of_a_dump_read_nothing_of_the_feed(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, was_seeded: bool
) -> None:
    file, read, rows = tmp_path / "mainstem.yml", list[str](), Lakehouse.rows
    file.write_text(
        "pipeline: shop\nlakehouse: ./lakehouse\nsources:\n  feed: {format: canal, files: ./landing}\n"
    )
    config = load_config(file, formats=LAYER.options())
    lake = Lakehouse(config.root)
    if was_seeded:
        note = Path(lake.checkpoints, NOTE)
        note.parent.mkdir(parents=True)
        note.touch()

    def noting(lake: Lakehouse, spark: SparkSession, table: str, *more: Any) -> DataFrame:
        read.append(table)
        return rows(lake, spark, table, *more)

    monkeypatch.setattr(Lakehouse, "rows", noting)
    state = RunState(lake, config, {})
    assert plans_with_seeds(spark.createDataFrame([], MESSAGES), state) == {}
    assert not {CHANGES_TABLE, SCHEMAS_TABLE} & set(read)
