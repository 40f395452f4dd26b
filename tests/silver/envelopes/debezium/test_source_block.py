"""The `source` block: what each member says, and that a message's block is read once."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec import Raw

from framework.contracts.quarantine_reasons import Malformed
from silver.envelopes.debezium.source_block import SourceBlock

MYSQL = {"connector": "mysql", "db": "shop", "table": "orders", "file": "bin.000003", "pos": 484, "row": 2}


def members(source: dict[str, Any]) -> dict[str, Raw]:
    return {name: Raw(json.dumps(value).encode()) for name, value in source.items()}


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (MYSQL, {"names": ("shop", None, "orders"), "connector": "mysql", "position": (3, 484, 2, 0)}),
        ({**MYSQL, "server_id": 7, "gtid": "u:5"}, {"server": "7", "transaction": "u:5"}),
        ({**MYSQL, "ts_ms": 1465491411000}, {"event_time": 1_465_491_411_000_000}),
        (MYSQL, {"is_snapshot": False, "control_position": (3, 484, 2, 0, 1, 0)}),
        ({**MYSQL, "snapshot": "last"}, {"is_snapshot": True, "control_position": (3, 484, 2, 0, 0, 0)}),
        ({"lsn": 24023128, "sequence": '["24023119","24023128"]'}, {"last_commit": (24023119, 0, 0, 0)}),
        ({"file": "bin.000003", "pos": 484}, {"connector": "mysql", "is_shared": True}),
        ({"connector": "mysql", "file": "", "pos": 0}, {"position": None, "is_blank": True}),
    ],
)
def test_members_and_what_they_say(source: dict[str, Any], expected: dict[str, Any]) -> None:
    block = SourceBlock(members(source))
    assert {name: getattr(block, name) for name in expected} == expected


def test_a_member_that_cannot_be_read_refuses_only_what_needs_it() -> None:
    block = SourceBlock(members({**MYSQL, "file": "bin"}))
    assert block.names == ("shop", None, "orders")
    with pytest.raises(Malformed, match=r"source\.file ends in no number"):
        _ = block.position


def test_a_block_is_read_once() -> None:
    class Counted(dict[str, Raw]):
        reads = 0

        def get(self, name: str, default: Any = None) -> Any:
            self.reads += 1
            return super().get(name, default)

    counted = Counted(members(MYSQL))
    block = SourceBlock(counted)

    def everything() -> tuple[Any, ...]:
        return block.names, block.connector, block.position, block.is_shared, block.is_blank, block.event_time

    first, reads = everything(), counted.reads
    assert everything() == first
    assert counted.reads == reads
