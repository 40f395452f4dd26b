"""The state of a run: what is read once, and when it is read again."""

from __future__ import annotations

from typing import Any
from unittest.mock import Mock

import pytest

from framework.contracts.epochs import EpochRow
from framework.lakehouse.lakehouse import Lakehouse
from silver.batches import run_state
from silver.batches.encodings import EncodingRow, Encodings, defined_row
from silver.batches.run_state import RunState
from silver.decoding.table_definitions import TableDefinition, definitions_by_table
from silver.epochs import history
from silver.epochs.history import History


def test_the_epochs_are_read_once_and_again_after_the_run_has_appended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    table: list[EpochRow] = []
    reads: list[int] = []

    def read(*_: object) -> History:
        reads.append(len(table))
        return History(tuple(table))

    def append(_spark: object, _lake: object, rows: list[EpochRow]) -> None:
        table.extend(rows)
        raise OSError("the commit is there, its answer is lost")

    monkeypatch.setattr(history, "read_history", read)
    monkeypatch.setattr(history, "append_rows", append)
    nothing: Any = None
    state = RunState(Lakehouse("/nowhere"), nothing, {})
    assert [state.epoch_history(nothing).sources() for _ in range(3)] == [[], [], []]
    with pytest.raises(OSError, match="its answer is lost"):
        state.append_epochs(nothing, [EpochRow("feed", 2, "begun")])
    assert [state.epoch_history(nothing).epochs("feed") for _ in range(3)] == [[2], [2], [2]]
    assert reads == [0, 1]
    state.append_epochs(nothing, [EpochRow("feed", 2, "begun")])
    assert len(table) == 1


def test_definitions_of_excluded_tables_are_recorded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also those of a source that has stopped: the run knows only definitions from before the stop."""
    appended: list[EncodingRow] = []
    monkeypatch.setattr(run_state, "append_rows", lambda _spark, _lake, rows: appended.extend(rows))
    item, other = (
        TableDefinition("shop", None, table, (1, 0, 50), (("id", "INT"), ("total", "BIGINT UNSIGNED")))
        for table in ("item", "other")
    )
    definitions = {source: definitions_by_table([item, other]) for source in ("feed", "halted")}
    plan = Mock(is_excluded=lambda _database, _schema, table: table == "item")
    stopped = History((EpochRow("halted", 1, "stopped"),))
    nothing: Any = None
    state = RunState(
        Lakehouse("/nowhere"), nothing, dict.fromkeys(definitions, plan), definitions=definitions,
        encodings=Encodings(), history=stopped,
    )  # fmt: skip
    for batch in (1000, 2000):
        state.append_definitions(nothing, batch)
    assert [(row.source, row.batch) for row in appended] == [("feed", 1000), ("halted", 1000)]
    of_item = definitions_by_table([item])
    assert Encodings(tuple(appended)).definitions() == {"feed": of_item, "halted": of_item}


def test_definitions_are_compared_by_number_and_not_each_with_each(monkeypatch: pytest.MonkeyPatch) -> None:
    """A job creates an excluded table anew each hour: its definitions are many, and in each batch again."""
    compared: list[object] = []
    columns = (("id", "INT"),)
    many = definitions_by_table(
        TableDefinition("shop", None, "item", (1, place), columns) for place in range(2_000)
    )
    rows = tuple(defined_row("feed", one, 1000) for (every,) in [many.tables.values()] for one in every)
    nothing: Any = None
    state = RunState(
        Lakehouse("/nowhere"), nothing, {"feed": Mock(is_excluded=lambda *_: True)},
        definitions={"feed": many}, encodings=Encodings(rows), history=History(()),
    )  # fmt: skip
    monkeypatch.setattr(run_state, "append_rows", lambda *_: pytest.fail("all are recorded"))
    is_same = TableDefinition.__eq__
    monkeypatch.setattr(
        TableDefinition, "__eq__", lambda one, other: compared.append(one) or is_same(one, other)
    )
    state.append_definitions(nothing, 2000)
    assert len(compared) < 10_000
    compared.clear()
    state.append_definitions(nothing, 3000)
    assert not compared, "a batch without definitions compares none"
