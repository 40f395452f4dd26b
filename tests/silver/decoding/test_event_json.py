from __future__ import annotations

from framework.contracts.ddl_actions import DropTable
from framework.contracts.events import Column, Control, ControlKind, Op, RowChange, Token
from silver.decoding.event_json import event_members


def test_a_row_change_has_its_members_without_defaults() -> None:
    change = RowChange(
        op=Op.INSERT,
        database="shop",
        schema=None,
        table="orders",
        keys=("id",),
        before=None,
        after={"id": "1", "price": None},
        columns={"id": Column("int", "int(11)"), "price": Column(token=Token.NULL)},
        position=(7, 8),
        event_time=None,
        partial=True,
    )
    assert event_members(change) == {
        "op": "insert",
        "database": "shop",
        "schema": None,
        "table": "orders",
        "keys": ["id"],
        "before": None,
        "after": {"id": "1", "price": None},
        "columns": {"id": {"type": "int", "declared": "int(11)"}, "price": {"token": "null"}},
        "position": [7, 8],
        "event_time": None,
        "partial": True,
    }


def test_a_control_event_has_what_it_sets() -> None:
    assert event_members(Control(ControlKind.HEARTBEAT, "h")) == {"kind": "heartbeat", "op": "h"}


def test_actions_are_objects() -> None:
    event = Control(ControlKind.DDL, "DROP", table="orders", actions=(DropTable(),))
    assert event_members(event)["actions"] == [{"action": "DropTable"}]
