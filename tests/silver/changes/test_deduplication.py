"""Where a position is only a time, an identical change is a repeat unless it continues from the state before
it.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from silver.changes.change_id import digest, image_parts
from silver.changes.deduplication import deduplicate, deduplicate_groups
from silver.changes.pairing import KNOWN, NEW, REPEATED
from silver.changes.staged_rows import STAGED, Row, staged_table

Values = Mapping[str, str | None]


def change(
    op: str,
    old: Values | None,
    new: Values | None,
    offset: int,
    *,
    origin: str = NEW,
    keys: Sequence[str] | None = ("id",),
    partial: bool = False,
) -> Row:
    row: Row = dict.fromkeys(STAGED.names)
    row.update(
        change_id=digest((op, *image_parts(old), *image_parts(new))),
        source="feed",
        format="canal",
        kind="row",
        op=op,
        database="shop",
        table="orders",
        sequence=f"011.011.015.010.{len(str(offset)):02d}{offset}.010",
        topic="orders",
        partition=0,
        offset=offset,
        ordinal=0,
        keys=list(keys) if keys else None,
        before=old,
        after=new,
        partial=partial,
        origin=origin,
    )
    return row


def at(value: str, key: str = "1") -> Values:
    return {"id": key, "v": value}


def update(old: str, new: str, offset: int, **more: object) -> Row:
    return change("update", at(old), at(new), offset, **more)  # type: ignore[arg-type]


def kinds(rows: Sequence[Row]) -> list[str]:
    return [row["kind"] for row in deduplicate(list(rows))]


def test_there_and_back_and_there_is_three_changes() -> None:
    outcomes = deduplicate([update("A", "B", 0), update("B", "A", 1), update("A", "B", 2)])
    assert [row["kind"] for row in outcomes] == ["row", "row", "row"]
    assert len({row["change_id"] for row in outcomes}) == 3


def test_on_to_a_third_state_and_the_first_again_is_two_changes_and_a_repeat() -> None:
    outcomes = deduplicate([update("A", "B", 0), update("B", "C", 1), update("A", "B", 2)])
    assert [row["kind"] for row in outcomes] == ["row", "row", "duplicate"]
    assert (outcomes[2]["change_id"], outcomes[2]["before"], outcomes[2]["after"]) == (
        outcomes[0]["change_id"],
        None,
        None,
    )


def test_the_same_update_at_once_again_is_a_repeat() -> None:
    assert kinds([update("A", "B", 0), update("A", "B", 1)]) == ["row", "duplicate"]


def test_a_row_inserted_deleted_and_inserted_again_is_three_changes() -> None:
    rows = [
        change("insert", None, at("A"), 0),
        change("delete", at("A"), None, 1),
        change("insert", None, at("A"), 2),
    ]
    assert kinds(rows) == ["row", "row", "row"]


def test_an_insert_again_without_a_delete_between_is_a_repeat() -> None:
    assert kinds([change("insert", None, at("A"), 0), change("insert", None, at("A"), 1)]) == [
        "row",
        "duplicate",
    ]


def test_a_delete_again_is_a_repeat_unless_the_row_came_back() -> None:
    gone, back = change("delete", at("A"), None, 0), change("insert", None, at("A"), 1)
    assert kinds([gone, {**gone, "offset": 2}]) == ["row", "duplicate"]
    assert kinds([gone, back, {**gone, "offset": 2}]) == ["row", "row", "row"]


def test_a_snapshot_row_again_is_a_repeat() -> None:
    assert kinds([change("read", None, at("A"), 0), change("read", None, at("A"), 1)]) == ["row", "duplicate"]


def test_a_snapshot_row_that_was_otherwise_between_is_a_change() -> None:
    first, other = change("read", None, at("A"), 0), change("read", None, at("B"), 1)
    outcomes = deduplicate([first, other, {**first, "offset": 2}, {**first, "offset": 3}])
    assert [row["kind"] for row in outcomes] == ["row", "row", "row", "duplicate"]
    assert len({row["change_id"] for row in outcomes[:3]}) == 3
    known = [{**first, "origin": KNOWN}, {**other, "origin": KNOWN}]
    assert kinds([*known, {**first, "offset": 2}]) == ["row"]


def test_an_update_without_a_before_image_is_a_change_where_the_row_was_otherwise() -> None:
    there, back = change("update", None, at("A"), 0), change("update", None, at("B"), 1)
    assert kinds([there, back, {**there, "offset": 2}]) == ["row", "row", "row"]
    assert kinds([there, {**there, "offset": 2}]) == ["row", "duplicate"]
    keyless = {"keys": None}
    assert kinds([{**there, **keyless}, {**back, **keyless}, {**there, **keyless, "offset": 2}]) == [
        "row",
        "row",
        "duplicate",
    ]


def test_changes_of_other_keys_do_not_stand_between() -> None:
    other = change("update", at("X", "2"), at("Y", "2"), 1)
    assert kinds([update("A", "B", 0), other, update("A", "B", 2), {**other, "offset": 3}]) == [
        "row",
        "row",
        "duplicate",
        "duplicate",
    ]


def test_changes_of_earlier_batches_are_known_and_get_no_outcome() -> None:
    assert kinds([update("A", "B", 7, origin=KNOWN), update("A", "B", 2)]) == ["duplicate"]
    assert kinds(
        [update("A", "B", 7, origin=KNOWN), update("B", "A", 8, origin=KNOWN), update("A", "B", 2)]
    ) == ["row"]


def test_a_change_that_happened_again_has_the_same_new_id_in_one_batch_or_two() -> None:
    rows = [update("A", "B", 0), update("B", "A", 1), update("A", "B", 2)]
    together = deduplicate(rows)[2]
    (apart,) = deduplicate([{**rows[0], "origin": KNOWN}, {**rows[1], "origin": KNOWN}, rows[2]])
    assert apart["change_id"] == together["change_id"] != rows[2]["change_id"]


def test_a_key_that_changed_there_and_back_and_there_is_three_changes() -> None:
    there = change("update", at("A", "1"), at("A", "2"), 0)
    back = change("update", at("A", "2"), at("A", "1"), 1)
    assert kinds([there, back, {**there, "offset": 2}]) == ["row", "row", "row"]
    assert kinds([there, {**there, "offset": 2}]) == ["row", "duplicate"]


def test_an_insert_under_a_key_that_moved_away_is_a_change() -> None:
    insert = change("insert", None, at("A"), 0)
    moved = change("update", at("A"), at("A", "2"), 1)
    assert kinds([insert, moved, {**insert, "offset": 2}]) == ["row", "row", "row"]


def test_a_row_that_comes_to_a_key_with_a_partial_image_has_the_columns_that_it_had() -> None:
    """The row that had the key before it does not leave it a second time."""
    left = change("update", at("B"), at("B", "4"), 0)
    came = change("update", at("A", "3"), {"id": "1"}, 1, partial=True)
    assert kinds([left, came, {**left, "offset": 2}, {**came, "offset": 3}]) == [
        "row",
        "row",
        "duplicate",
        "duplicate",
    ]


def test_a_row_does_not_move_again_to_a_key_that_a_row_has() -> None:
    """An equal row has the old key since then: if that moved as well, it would be lost."""
    left, came = change("update", at("A"), at("A", "4"), 0), change("update", at("A", "3"), at("A"), 1)
    again = [{**left, "offset": 2}, {**came, "offset": 3}]
    assert kinds([left, came, *again]) == ["row", "row", "duplicate", "duplicate"]
    gone = change("delete", at("A", "4"), None, 2)
    assert kinds([left, came, gone, {**left, "offset": 3}]) == ["row", "row", "row", "row"]


def test_a_row_that_is_inserted_and_moved_again_moves_on_as_before() -> None:
    """Else its insert, which counts because the row has left its key, would leave a second row."""
    came, left = change("insert", None, at("A"), 0), change("update", at("A"), at("A", "2"), 1)
    on = change("update", at("A", "2"), at("A", "3"), 2)
    assert kinds([came, left, {**came, "offset": 3}, {**left, "offset": 4}]) == ["row"] * 4
    chain = [came, left, on]
    again = [{**row, "offset": 3 + n} for n, row in enumerate(chain)]
    assert kinds([*chain, *again]) == ["row"] * 6
    assert kinds([*({**row, "origin": KNOWN} for row in chain), *again]) == ["row"] * 3


def test_a_row_that_comes_to_a_key_whose_row_a_repeat_has_deleted_comes_again() -> None:
    deleted = change("delete", at("A"), None, 0)
    moved = change("update", at("A", key="2"), at("A"), 1)
    again = [{**deleted, "offset": 2}, {**moved, "offset": 3}]
    assert kinds([deleted, moved, *again]) == ["row"] * 4
    known = [{**row, "origin": KNOWN} for row in (deleted, moved)]
    assert kinds([*known, *again]) == ["row"] * 2
    settled = [*known, {**deduplicate([*known, again[0]])[0], "origin": KNOWN}]
    assert kinds([*settled, again[1]]) == ["row"]  # the rest of the repeat lands in a later batch
    assert kinds([*settled, again[1], {**moved, "offset": 4}])[1:] == ["duplicate"]


def test_a_row_that_comes_to_a_key_which_a_repeat_has_left_comes_again() -> None:
    swapped = [
        change("update", at("A", key="3"), at("A", key="2"), 0),
        change("update", at("A"), at("A", key="3"), 1),
        change("update", at("A", key="2"), at("B"), 2),
    ]
    again = [{**row, "offset": row["offset"] + 3} for row in swapped]
    assert kinds([*swapped, *again]) == ["row"] * 6


def test_a_partial_image_lies_over_the_state_before_it() -> None:
    first = change("update", {"id": "1", "v": "A"}, {"id": "1", "v": "B"}, 0, partial=True)
    second = change("update", {"id": "1", "v": "B"}, {"id": "1", "v": "C"}, 1, partial=True)
    other = change("update", {"id": "1", "w": "X"}, {"id": "1", "w": "Y"}, 2, partial=True)
    assert kinds([first, second, other, {**first, "offset": 3}]) == ["row", "row", "row", "duplicate"]


def test_null_and_absent_differ_in_a_before_image() -> None:
    first = change("update", {"id": "1", "v": None}, at("B"), 0)
    assert kinds([first, update("B", "C", 1), {**first, "offset": 2}]) == ["row", "row", "duplicate"]


def test_an_update_whose_before_image_lacks_what_it_changes_is_a_repeat_when_it_comes_again() -> None:
    first = change("update", {"id": "1"}, at("B"), 0, partial=True)
    back = change("update", at("B"), {"id": "1", "v": None}, 1, partial=True)
    again = {**first, "offset": 2}
    assert kinds([first, again]) == ["row", "duplicate"]
    assert kinds([first, back, again]) == ["row", "row", "row"]


def test_a_table_without_a_key_tells_repeats_by_its_last_row() -> None:
    rows = [change("insert", None, {"v": "A"}, n, keys=None) for n in (0, 1)]
    assert kinds(rows) == ["row", "duplicate"]


def test_a_row_of_a_table_without_a_key_does_not_come_again_because_another_one_was_deleted() -> None:
    came, gone = (
        change("insert", None, {"v": "A"}, 0, keys=None),
        change("delete", {"v": "B"}, None, 1, keys=None),
    )
    again = [{**came, "offset": 2}, {**gone, "offset": 3}]
    assert kinds([came, gone, *again]) == ["row", "row", "duplicate", "duplicate"]
    gone = change("delete", {"v": "A"}, None, 1, keys=None)
    assert kinds([came, gone, {**came, "offset": 2}]) == ["row", "row", "row"]


def test_rows_of_a_table_without_a_key_come_again_in_any_number() -> None:
    rows = [change("insert", None, {"v": v}, n, keys=None) for n, v in enumerate("AB")]
    gone = [change("delete", {"v": v}, None, 2 + n, keys=None) for n, v in enumerate("AB")]
    other = change("update", {"v": "C"}, {"v": "D"}, 4, keys=None)
    again = [{**row, "offset": 5 + n} for n, row in enumerate(rows)]
    assert kinds([*rows, *gone, other, *again]) == ["row"] * 7
    assert kinds([rows[0], gone[0], again[0], {**again[0], "offset": 7}]) == ["row"] * 3 + ["duplicate"]
    wide = change("delete", {"v": "A", "w": "1"}, None, 2, keys=None)  # its column w is dropped then
    assert kinds([rows[0], wide, again[0]]) == ["row"] * 3
    wide = change("delete", {"v": "B", "w": "1"}, None, 2, keys=None)
    assert kinds([rows[0], wide, again[0]]) == ["row", "row", "duplicate"]


def test_many_rows_of_a_table_without_a_key_are_looked_up_also_where_a_column_was_dropped() -> None:
    """Each insert looked at all rows that had been deleted: four thousand of them took a minute."""
    names = [str(n) for n in range(4_000)]
    gone = [change("delete", {"v": v, "w": "1"}, None, int(v), keys=None) for v in names]
    came = [change("insert", None, {"v": v}, 4_000 + int(v), keys=None) for v in names]
    again = [{**row, "offset": row["offset"] + 4_000} for row in came]
    begun = time.process_time()
    found = kinds([*gone, *came, *again])
    assert time.process_time() - begun < 5
    assert found == ["row"] * 8_000 + ["duplicate"] * 4_000


def test_the_order_of_the_members_does_not_matter() -> None:
    rows = [update("A", "B", 0), update("B", "A", 1), update("A", "B", 2), update("A", "B", 3)]
    assert kinds(rows) == kinds(rows[::-1]) == ["row", "row", "row", "duplicate"]


def test_arrow_rows_go_in_and_outcomes_come_out() -> None:
    members = staged_table([update("A", "B", 0), update("A", "B", 1)]).append_column(
        "origin", [["new", "new"]]
    )
    (batch,) = deduplicate_groups(members.append_column("_group", [["here", "here"]]).to_batches())
    assert batch.column("kind").to_pylist() == ["row", "duplicate"]


def test_a_place_that_breaks_the_comparison_is_quarantined_and_others_are_settled() -> None:
    rows = [
        update("a", "b", 1),
        update("a", "b", 2),
        update("a", "b", 3),
        {**update("b", "c", 4), "topic": None},
    ]
    members = staged_table(rows).append_column("origin", [["new"] * 4])
    members = members.append_column("_group", [["here", "here", "there", "there"]])
    found_kinds = [
        kind
        for batch in deduplicate_groups(members.to_batches())
        for kind in batch.column("kind").to_pylist()
    ]
    assert found_kinds == ["row", "duplicate", "quarantined", "quarantined"]


def test_an_update_that_changes_nothing_is_a_repeat_when_it_comes_again() -> None:
    assert kinds([update("a", "a", 1), update("a", "a", 2)]) == ["row", "duplicate"]
    assert kinds([update("a", "a", 1, origin=KNOWN), update("a", "a", 2)]) == ["duplicate"]
    assert (
        kinds([update("a", "b", 1), update("b", "b", 2), update("b", "a", 3), update("a", "b", 4)])
        == ["row"] * 4
    )


def copied(offset: int, value: str = "A", **more: object) -> Row:
    """A row of a table without a key, one of several in one record of the source's log."""
    return {**change("insert", None, {"v": value}, offset, keys=None), "run": offset, **more}


def test_equal_rows_of_one_record_are_as_many_rows_and_the_record_again_repeats_them() -> None:
    assert kinds([copied(7), copied(8), copied(9, "B"), copied(10)]) == ["row"] * 4
    redelivered = [copied(n, value) for n, value in ((50, "A"), (51, "A"), (52, "B"), (53, "A"))]
    assert (
        kinds([copied(7), copied(8), copied(9, "B"), copied(10), *redelivered])
        == ["row"] * 4 + ["duplicate"] * 4
    )
    known = [copied(7, origin=KNOWN), copied(8, origin=KNOWN), copied(9, "B", origin=KNOWN)]
    assert kinds([*known, copied(10), *redelivered]) == ["row"] + ["duplicate"] * 4
    assert len({row["change_id"] for row in deduplicate([copied(7), copied(8), copied(9)])}) == 3


def test_parts_of_a_record_and_of_its_redelivery_that_land_first_hold_no_row_twice() -> None:
    known = [copied(9, "B", origin=KNOWN), copied(10, origin=KNOWN), copied(51, origin=KNOWN)]
    assert kinds([*known, copied(7), copied(8), copied(52, "B"), copied(53)]) == ["row"] + ["duplicate"] * 3


def test_a_record_whose_rows_are_in_two_partitions_holds_the_rows_of_one_of_them() -> None:
    assert kinds([copied(7), copied(8), copied(3, partition=1)]) == ["row", "row", "duplicate"]


def test_a_row_repeats_only_the_row_at_its_own_place_in_a_message() -> None:
    """Each message of Canal has the rows of one statement, and is repeated with all of them."""
    first = [update("A", "B", 0), {**update("B", "B", 0), "ordinal": 1}]
    second = [update("B", "B", 1), {**update("B", "C", 1), "ordinal": 1}]
    redelivered = [{**row, "offset": 2} for row in second]
    assert kinds([*first, *second, *redelivered]) == ["row", "row", "row", "row", "duplicate", "duplicate"]
    assert len({row["change_id"] for row in deduplicate([*first, *second])}) == 4


def of_record(offset: int, run: tuple[int, int], origin: str = NEW, change_id: str = "a") -> Row:
    """A row of a table without a key, in a run of offsets."""
    blank: Row = dict.fromkeys(STAGED.names)
    row = {"topic": "t", "partition": 0, "offset": offset, "ordinal": 0, "op": "insert", "kind": "row"}
    ends = {"run": run[0], "run_end": run[1]}
    return {**blank, **row, **ends, "after": {"v": "a"}, "origin": origin, "change_id": change_id}


def test_an_earlier_duplicate_is_a_row_of_its_delivery() -> None:
    """The record came with one row before its connector died; of its second delivery, 20 came before 22."""
    known, repeated = of_record(7, (7, 7), KNOWN), of_record(20, (20, 22), REPEATED)
    assert deduplicate([known, of_record(22, (20, 22))])[0]["kind"] == "duplicate"
    (found,) = deduplicate([known, repeated, of_record(22, (20, 22))])
    assert (found["kind"], found["offset"]) == ("row", 22)


def test_a_row_that_has_an_outcome_is_no_second_row_of_its_delivery() -> None:
    """The message at 20 is decoded again for another row; 7 is new, and 20 has been its only delivery."""
    known, again = of_record(20, (20, 20), KNOWN), of_record(20, (20, 20))
    found = deduplicate([known, again, of_record(7, (7, 7))])
    assert [(row["kind"], row["offset"]) for row in found] == [("duplicate", 7), ("duplicate", 20)]


def test_of_a_record_of_which_a_part_is_decoded_again_each_row_has_an_id_of_its_own() -> None:
    ids = [row["change_id"] for row in deduplicate([of_record(n, (7, 9)) for n in (7, 8, 9)])]
    known = [of_record(7 + n, (7, 9), KNOWN, ids[n]) for n in (1, 2)]
    (found,) = deduplicate([*known, of_record(7, (7, 9))])
    assert found["kind"] == "row"
    assert found["change_id"] == ids[0]
