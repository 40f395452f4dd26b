"""A change that its feed identifies is one change, whatever the time at which it is written again."""

from __future__ import annotations

import json

from silver.changes.staged_rows import Row
from silver.formats import dms
from silver.values.sequence import sequence_of
from tests.silver.changes.test_decode import normalized, plan

SECOND = 1_000_000
COMMITTED = 1_722_214_697 * SECOND  # 2024-07-29T00:58:17Z


def message(at: str, record: int = 1, **more: object) -> bytes:
    metadata = {
        "timestamp": f"2024-07-29T{at}Z", "record-type": "data", "operation": "insert", "schema-name": "shop",
        "table-name": "t", "transaction-id": 1139, "transaction-record-id": record,
        "commit-timestamp": "2024-07-29T00:58:17Z",
        "stream-position": "00000002/7C007178.3.00000002/7C007178", **more,
    }  # fmt: skip
    return json.dumps({"data": {"v": 1}, "metadata": metadata}).encode()


def decoded(*values: bytes, epoch: int = 1) -> list[Row]:
    return normalized(values, plan(dms.FORMAT, epoch=epoch))


def test_a_change_that_is_written_again_later_keeps_its_id() -> None:
    first, again = decoded(message("00:58:18"), message("03:00:00"))
    assert first["change_id"] == again["change_id"]
    assert first["sequence"] < again["sequence"]


def test_equal_rows_of_one_transaction_have_ids_of_their_own() -> None:
    rows = decoded(
        message("00:58:18"), message("00:58:18", 2), message("00:58:18", **{"transaction-id": 1140})
    )
    assert len({row["change_id"] for row in rows}) == 3
    assert decoded(message("00:58:18"), epoch=2)[0]["change_id"] not in {row["change_id"] for row in rows}


def test_another_delivery_cannot_be_before_the_commit_but_for_the_difference_of_clocks() -> None:
    (row,) = decoded(message("03:00:00"))
    assert row["earliest"] == sequence_of(1, (COMMITTED - 300 * SECOND, 0, 0, 0), None)


def test_without_the_details_of_its_transaction_a_row_is_told_by_its_time() -> None:
    bare = {"stream-position": None, "transaction-id": None, "transaction-record-id": None}
    first, later = decoded(message("00:58:18", **bare), message("03:00:00", **bare))
    assert first["change_id"] != later["change_id"]
    assert (first["earliest"], later["earliest"]) == (None, None)
