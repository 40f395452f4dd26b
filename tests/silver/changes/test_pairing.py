"""Behaviour 2 of the contract: an update in two halves is one change,
however and whenever the halves come.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from framework.contracts.events import Image
from silver.changes.change_id import digest
from silver.changes.pairing import KNOWN, NEW, PENDING, REFUSED, merge_halves, pair, pair_groups
from silver.changes.staged_rows import STAGED, Row, plain_rows, staged_table

HOUR = 3_600_000_000
JOE, ANN, BOB = {"id": "1", "name": "joe"}, {"id": "1", "name": "ann"}, {"id": "2", "name": "bob"}


def half(
    side: str,
    image: Mapping[str, str | None],
    offset: int,
    *,
    keys: Sequence[str] | None = ("id",),
    origin: str = NEW,
    sequence: str = "011.011.015",
    partition: int = 0,
    time: int | None = 0,
    deadline: int | None = None,
    is_shared: bool | None = None,
) -> Row:
    """One half of an update of `shop.orders`."""
    row: Row = dict.fromkeys(STAGED.names)
    place = ("feed", "shop", "orders", sequence)
    row.update(
        change_id=digest((*place, *(image[k] for k in keys or sorted(image)))),
        source="feed",
        format="datahub_blob",
        kind="row",
        op="update",
        database="shop",
        table="orders",
        sequence=sequence,
        event_time=time,
        topic="orders",
        partition=partition,
        offset=offset,
        ordinal=0,
        keys=list(keys) if keys else None,
        before=dict(image) if side == "before" else None,
        after=dict(image) if side == "after" else None,
        partial=False,
        half=side,
        origin=origin,
        deadline=deadline,
        is_shared=is_shared,
    )
    return row


def before(image: Mapping[str, str | None], offset: int, **more: object) -> Row:
    return half("before", image, offset, **more)  # type: ignore[arg-type]


def after(image: Mapping[str, str | None], offset: int, **more: object) -> Row:
    return half("after", image, offset, **more)  # type: ignore[arg-type]


def update(old: Mapping[str, str | None], new: Mapping[str, str | None], offset: int, **more: object) -> Row:
    """A whole update that is known already."""
    return {**merge_halves(before(old, offset - 1, **more), after(new, offset, **more)), "origin": KNOWN}


def waiting(row: Row) -> Row:
    return {**row, "kind": "half", "origin": PENDING}


def released(row: Row) -> Row:
    return {**row, "kind": "row", "origin": KNOWN}


def summary(outcomes: Iterable[Row]) -> list[tuple[str, int, Image | None, Image | None]]:
    """What became of which offset: kind, offset, before, after."""
    return [(row["kind"], row["offset"], row["before"], row["after"]) for row in outcomes]


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_halves_in_either_order_are_one_update_at_the_after_half(order: tuple[int, int]) -> None:
    at_before, at_after = order
    (row,) = pair([after(ANN, at_after), before(JOE, at_before)])
    assert summary([row]) == [("row", at_after, JOE, ANN)]
    assert row["paired_with"] == {"topic": "orders", "partition": 0, "offset": at_before}
    assert (row["half"], row["op"]) == (None, "update")


def test_a_half_alone_waits() -> None:
    assert summary(pair([before(JOE, 0)])) == [("half", 0, JOE, None)]
    assert summary(pair([after(ANN, 0)])) == [("half", 0, None, ANN)]


def test_a_waiting_half_whose_partner_does_not_come_is_not_reported_again() -> None:
    assert pair([waiting(before(JOE, 0))]) == []


@pytest.mark.parametrize("first", ["before", "after"])
def test_a_partner_of_a_later_batch_completes_the_half_that_waits(first: str) -> None:
    old, new = before(JOE, 0), after(ANN, 7, partition=3)
    members = [waiting(old), new] if first == "before" else [waiting(new), old]
    (row,) = pair(members)
    assert summary([row]) == [("row", 7, JOE, ANN)]
    assert (row["partition"], row["paired_with"]["partition"]) == (3, 0)


def test_a_half_that_comes_twice_is_a_duplicate() -> None:
    outcomes = pair([before(JOE, 0), before(JOE, 1), after(ANN, 2), after(ANN, 3)])
    assert sorted(summary(outcomes), key=lambda f: f[1]) == [
        ("duplicate", 1, None, None),
        ("row", 2, JOE, ANN),
        ("duplicate", 3, None, None),
    ]


def test_a_half_that_waits_already_keeps_its_place_when_it_comes_again_with_a_lower_offset() -> None:
    outcomes = pair([waiting(before(JOE, 9)), before(JOE, 2)])
    assert summary(outcomes) == [("duplicate", 2, None, None)]


def test_halves_of_an_update_that_is_known_are_duplicates() -> None:
    outcomes = pair([update(JOE, ANN, 1), before(JOE, 5), after(ANN, 6)])
    assert summary(outcomes) == [("duplicate", 5, None, None), ("duplicate", 6, None, None)]


def test_a_half_that_waits_is_a_duplicate_once_the_whole_update_came_another_way() -> None:
    settled = pair([waiting(before(JOE, 5)), update(JOE, ANN, 9)])
    assert summary(settled) == [("duplicate", 5, None, None)]
    assert (settled[0]["reason"], settled[0]["detail"]) == ("update_complete", None)
    (new,) = pair([before(JOE, 5), update(JOE, ANN, 9)])
    assert (new["kind"], new["reason"]) == ("duplicate", None)


@pytest.mark.parametrize(
    ("none", "late"),
    [
        ('{"event_time":null}', f'{{"event_time":{900 * HOUR}}}'),
        ("event_time=", f"event_time={900 * HOUR}"),  # as earlier releases wrote it
    ],
)
def test_a_half_without_a_time_to_believe_waits_from_the_time_at_its_arrival_and_keeps_its_own(
    none: str, late: str
) -> None:
    timeless = {**waiting(after(ANN, 0, time=HOUR, deadline=2 * HOUR)), "detail": none}
    future = {
        **waiting(after(BOB, 1, time=HOUR, deadline=2 * HOUR, sequence="011.011.016")),
        "detail": late,
    }
    released = [pair([timeless])[0], pair([future])[0]]
    assert [(row["kind"], row["event_time"], row["detail"]) for row in released] == [
        ("row", None, None),
        ("row", 900 * HOUR, None),
    ]
    assert pair([{**timeless, "deadline": HOUR}]) == []
    (complete,) = pair([{**timeless, "deadline": HOUR}, before(JOE, 3)])
    assert (complete["event_time"], complete["detail"]) == (None, None)


def test_an_overdue_after_half_becomes_an_update_without_a_before_image() -> None:
    (row,) = pair([waiting(after(ANN, 0, deadline=HOUR))])
    assert summary([row]) == [("row", 0, None, ANN)]
    assert (row["half"], row["paired_with"]) == ("after", None)


def test_an_overdue_before_half_is_quarantined() -> None:
    (row,) = pair([waiting(before(JOE, 0, deadline=HOUR))])
    assert summary([row]) == [("quarantined", 0, JOE, None)]
    assert row["reason"] == "unpaired_before_image"


def refused(row: Row) -> Row:
    return {**row, "kind": "quarantined", "reason": "unpaired_before_image", "origin": REFUSED}


def test_an_after_half_completes_its_update_with_the_before_half_in_quarantine() -> None:
    (row,) = pair([refused(before(JOE, 0)), after(ANN, 5, deadline=HOUR)])
    assert summary([row]) == [("row", 5, JOE, ANN)]
    assert row["paired_with"] == {"topic": "orders", "partition": 0, "offset": 0}


def test_a_before_half_in_quarantine_that_comes_again_is_a_duplicate() -> None:
    assert summary(pair([refused(before(JOE, 0)), before(JOE, 7, deadline=HOUR)])) == [
        ("duplicate", 7, None, None)
    ]


def test_a_before_half_in_quarantine_whose_update_is_complete_takes_no_part_again() -> None:
    assert summary(pair([refused(before(JOE, 0)), update(JOE, ANN, 5), after(ANN, 9)])) == [
        ("duplicate", 9, None, None)
    ]


def test_halves_in_quarantine_without_a_new_partner_stay_there() -> None:
    assert pair([refused(before(JOE, 0, deadline=HOUR)), update(BOB, BOB, 5)]) == []


@pytest.mark.parametrize(("time", "deadline"), [(0, None), (HOUR, HOUR), (2 * HOUR, HOUR), (None, HOUR)])
def test_a_half_within_its_time_or_without_a_time_waits_on(time: int | None, deadline: int | None) -> None:
    assert pair([waiting(after(ANN, 0, time=time, deadline=deadline))]) == []


def test_a_new_partner_is_paired_before_any_release() -> None:
    (row,) = pair([waiting(after(ANN, 0, deadline=HOUR)), before(JOE, 5, deadline=HOUR)])
    assert summary([row]) == [("row", 0, JOE, ANN)]


def test_a_half_that_is_overdue_when_it_comes_is_released_at_once() -> None:
    assert summary(pair([after(ANN, 0, deadline=HOUR)])) == [("row", 0, None, ANN)]


def test_the_late_partner_of_a_released_half_completes_it_under_the_same_change_id_and_sequence() -> None:
    (lone,) = pair([waiting(after(ANN, 0, deadline=HOUR))])
    (whole,) = pair([released(lone), before(JOE, 9, deadline=HOUR)])
    assert summary([whole]) == [("row", 0, JOE, ANN)]
    assert (whole["change_id"], whole["sequence"], whole["half"]) == (
        lone["change_id"],
        lone["sequence"],
        None,
    )


def test_a_completed_half_is_not_completed_again() -> None:
    lone = released(after(ANN, 0))
    (whole,) = pair([lone, before(JOE, 9)])
    outcomes = pair([lone, {**whole, "origin": KNOWN}, before(JOE, 12), after(ANN, 13)])
    assert summary(outcomes) == [("duplicate", 12, None, None), ("duplicate", 13, None, None)]


def test_a_released_half_that_comes_again_is_a_duplicate() -> None:
    assert summary(pair([released(after(ANN, 0)), after(ANN, 5)])) == [("duplicate", 5, None, None)]


def test_several_pairs_on_one_position_are_distinguished_by_key() -> None:
    outcomes = pair(
        [before(JOE, 0), before(BOB, 1), after({**BOB, "name": "eve"}, 2, partition=1), after(ANN, 3)]
    )
    assert sorted(summary(outcomes), key=lambda f: f[1]) == [
        ("row", 2, BOB, {"id": "2", "name": "eve"}),
        ("row", 3, JOE, ANN),
    ]


def test_a_changed_key_is_one_update() -> None:
    assert summary(pair([before(JOE, 0), after({"id": "9", "name": "joe"}, 4, partition=1)])) == [
        ("row", 4, JOE, {"id": "9", "name": "joe"})
    ]


def test_a_changed_key_beside_a_plain_update_on_one_position() -> None:
    moved = {"id": "9", "name": "joe"}
    members = [before(JOE, 0), before(BOB, 1), after(moved, 2), after({**BOB, "name": "eve"}, 3)]
    assert sorted(row["kind"] for row in pair(members)) == ["half", "half", "row"]
    outcomes = pair([{**row, "deadline": HOUR} for row in members])
    assert sorted(summary(outcomes), key=lambda f: f[1]) == [
        ("row", 2, JOE, moved),
        ("row", 3, BOB, {"id": "2", "name": "eve"}),
    ]


def test_swapped_keys_on_one_position_are_updates_of_each_key() -> None:
    one, two = {"id": "1", "name": "joe"}, {"id": "2", "name": "bob"}
    outcomes = pair(
        [before(one, 0), after({**one, "id": "2"}, 1), before(two, 2), after({**two, "id": "1"}, 3)]
    )
    assert sorted(summary(outcomes), key=lambda f: f[1]) == [
        ("row", 1, two, {"id": "2", "name": "joe"}),
        ("row", 3, one, {"id": "1", "name": "bob"}),
    ]


def test_tables_without_a_key_are_paired_by_position() -> None:
    assert summary(pair([before(JOE, 0, keys=None), after(BOB, 1, keys=None)])) == [("row", 1, JOE, BOB)]


def test_several_pairs_without_a_key_are_paired_by_their_order_in_one_partition() -> None:
    halves = [
        before(JOE, 0, keys=None),
        after(ANN, 1, keys=None),
        before(BOB, 2, keys=None),
        after({"id": "3"}, 3, keys=None),
    ]
    for members in (halves, halves[::-1], [waiting(halves[2]), *halves[:2], halves[3]]):
        assert sorted(summary(pair(members)), key=lambda f: f[1]) == [
            ("row", 1, JOE, ANN),
            ("row", 3, BOB, {"id": "3"}),
        ]


@pytest.mark.parametrize("places", [((0, 0), (0, 1), (0, 2), (0, 3)), ((0, 0), (1, 0), (0, 1), (1, 1))])
def test_what_neither_key_nor_order_tells_apart_is_never_guessed(places: Sequence[tuple[int, int]]) -> None:
    images = [JOE, BOB, ANN, {"id": "3"}]
    sides = ["before", "before", "after", "after"]
    halves = [
        half(s, i, o, partition=p, keys=None) for s, i, (p, o) in zip(sides, images, places, strict=True)
    ]
    outcomes = pair(halves)
    assert [(row["kind"], row["reason"]) for row in outcomes] == [("quarantined", "ambiguous_pair")] * 4


def test_halves_of_different_keys_wait_for_their_own_partners() -> None:
    early = [before({"id": "1"}, 0), before({"id": "2"}, 1), after({"id": "3"}, 2), after({"id": "4"}, 3)]
    assert [row["kind"] for row in pair(early)] == ["half"] * 4
    late = [after({"id": "1"}, 4), after({"id": "2"}, 5), before({"id": "3"}, 6), before({"id": "4"}, 7)]
    outcomes = pair([*map(waiting, early), *late])
    assert {(row["before"]["id"], row["after"]["id"]) for row in outcomes} == {(n, n) for n in "1234"}


def test_an_open_question_waits_for_more_halves_and_is_refused_when_overdue() -> None:
    members = [before(JOE, 0, keys=None), before(BOB, 1, keys=None), after(ANN, 2, keys=None)]
    assert [row["kind"] for row in pair(members)] == ["half"] * 3
    overdue = [waiting({**row, "deadline": HOUR}) for row in members]
    assert [(row["kind"], row["reason"]) for row in pair(overdue)] == [("quarantined", "ambiguous_pair")] * 3


def test_a_missing_half_does_not_hold_up_the_pairs_beside_it() -> None:
    outcomes = pair([before(JOE, 0), after(ANN, 1), after({**BOB, "name": "eve"}, 2)])
    assert sorted(summary(outcomes), key=lambda f: f[1]) == [
        ("row", 1, JOE, ANN),
        ("half", 2, None, {"id": "2", "name": "eve"}),
    ]


def test_a_quarantined_half_keeps_no_image_and_known_rows_get_no_outcome() -> None:
    outcomes = pair(
        [
            released(after(BOB, 0, keys=None)),
            *(before({"id": str(n)}, n, keys=None, deadline=HOUR) for n in (1, 2)),
        ]
    )
    assert {row["offset"] for row in outcomes} == {1, 2}
    assert all(row["before"] is None and row["reason"] == "ambiguous_pair" for row in outcomes)


def test_the_answer_does_not_depend_on_the_order_of_the_members() -> None:
    members = [
        before(JOE, 0),
        before(JOE, 5),
        after(ANN, 1),
        before(BOB, 2),
        after({**BOB, "name": "eve"}, 3),
        after(ANN, 9),
    ]
    expected = sorted(summary(pair(members)), key=lambda f: f[1])
    for seed in range(20):
        shuffled = random.Random(seed).sample(members, len(members))
        assert sorted(summary(pair(shuffled)), key=lambda f: f[1]) == expected


def test_overdue_halves_are_decided_place_by_place_however_many_they_are() -> None:
    """Memory holds the halves of one place and one Arrow batch, not those of all places that are overdue."""
    taken = 0

    def batches() -> Iterator[pa.RecordBatch]:
        nonlocal taken
        for number in range(1_000):
            rows = [before(JOE, 2 * number, time=5), after(ANN, 2 * number + 1, time=5)]
            members = (
                staged_table(rows)
                .append_column("origin", [["pending", "new"]])
                .append_column("_group", [[str(number)] * 2])
            )
            taken += 1
            yield from members.append_column("deadline", staged_table(rows).column("event_time")).to_batches()

    found = pair_groups(batches())
    assert next(found).column("kind").to_pylist() == ["row"]
    assert taken == 2
    assert sum(batch.num_rows for batch in found) == 999


def test_arrow_rows_go_in_and_outcomes_come_out() -> None:
    rows = [before(JOE, 0, time=5), after(ANN, 1, time=5)]
    members = (
        staged_table(rows)
        .append_column("origin", [["new", "new"]])
        .append_column("_group", [["here", "here"]])
    )
    members = members.append_column("deadline", staged_table(rows).column("event_time"))
    found = [
        row
        for batch in pair_groups(members.to_batches())
        for row in plain_rows(pa.Table.from_batches([batch]))
    ]
    assert summary(found) == [("row", 1, JOE, ANN)]
    assert found[0]["event_time"] == 5


def test_a_place_that_breaks_the_pairing_is_quarantined_and_others_are_paired() -> None:
    nowhere = {**after(ANN, 3), "topic": None}  # there is no order between a topic and none
    rows = [before(JOE, 0), after(ANN, 1), before(JOE, 2), nowhere]
    members = (
        staged_table(rows)
        .append_column("origin", [["new"] * 4])
        .append_column("_group", [["here", "here", "there", "there"]])
    )
    members = members.append_column("deadline", staged_table(rows).column("event_time"))
    found = [
        row
        for batch in pair_groups(members.to_batches())
        for row in plain_rows(pa.Table.from_batches([batch]))
    ]
    assert [(row["kind"], row["reason"], row["after"]) for row in found] == [
        ("row", None, ANN),
        ("quarantined", "decoder_error", None),
        ("quarantined", "decoder_error", None),
    ]


@dataclass
class Silver:
    """The batch loop in memory: `changes` as committed, `pending` by coordinates,
    as `outcomes.paired` and `merge_pending` keep them.
    """

    changes: list[Row] = field(default_factory=list)
    pending: dict[tuple[int, int], Row] = field(default_factory=dict)

    def take(self, batch: Sequence[Row], deadline: int | None = None) -> None:
        known = [row for row in self.changes if row["kind"] == "row"]
        touched = {row["sequence"] for row in batch}
        met = [
            row
            for row in self.pending.values()
            if row["sequence"] in touched or (deadline is not None and row["event_time"] < deadline)
        ]
        outcomes: list[Row] = []
        for place in sorted({row["sequence"] for row in [*batch, *met]}):
            members = [{**row, "origin": NEW} for row in batch if row["sequence"] == place]
            members += [{**row, "origin": PENDING} for row in met if row["sequence"] == place]
            members += [{**row, "origin": KNOWN} for row in known if row["sequence"] == place]
            outcomes += pair([{**row, "deadline": deadline} for row in members])
        self.changes += outcomes
        gone = {
            (row["partition"], row["offset"])
            for row in outcomes
            if row["kind"] in ("row", "duplicate", "quarantined")
        }
        gone |= {
            (row["paired_with"]["partition"], row["paired_with"]["offset"])
            for row in outcomes
            if row["paired_with"]
        }
        self.pending |= {(row["partition"], row["offset"]): row for row in outcomes if row["kind"] == "half"}
        self.pending = {at: row for at, row in self.pending.items() if at not in gone}


@dataclass(frozen=True)
class Delivery:
    """Updates, and their halves as they are delivered, cut into batches."""

    updates: dict[str, list[tuple[Image, Image]]]
    batches: list[list[Row]]
    seed: int


@st.composite
def deliveries(draw: st.DrawFn, has_keys: bool = True, most: int = 3) -> Delivery:
    seed = draw(st.integers(0, 2**32))
    rng = random.Random(seed)
    updates: dict[str, list[tuple[Image, Image]]] = {}
    halves: list[Row] = []
    for n in range(draw(st.integers(1, 12))):
        sequence = f"011.011.{len(str(n)):02d}{n}"
        # several pairs of one position have keys of their own; a lone pair may change its key
        count = rng.choice((1, 1, rng.randint(1, most))) if has_keys else 1
        couples = []
        for key in range(count):
            old: Image = {"id": f"{n}-{key}", "v": rng.choice(("x", "y", None))}
            moves = count == 1 and rng.random() < 0.3
            new: Image = {"id": f"{n}-moved" if moves else old["id"], "v": rng.choice(("x", "z"))}
            couples.append((old, new))
            keys = ("id",) if has_keys else None
            for side, image in (("before", old), ("after", new)):
                halves += [half(side, image, 0, keys=keys, sequence=sequence)] * rng.choice((1, 1, 2, 3))
        updates[sequence] = couples
    rng.shuffle(halves)
    delivered = [{**row, "partition": rng.randrange(3), "offset": at} for at, row in enumerate(halves)]
    cuts = sorted(rng.randrange(len(delivered) + 1) for _ in range(rng.randrange(6)))
    batches = [delivered[a:b] for a, b in zip([0, *cuts], [*cuts, len(delivered)], strict=True) if a < b]
    return Delivery(updates, batches, seed)


def assert_each_update_is_one_row(silver: Silver, delivery: Delivery) -> None:
    rows = [row for row in silver.changes if row["kind"] == "row"]
    got = Counter((row["sequence"], repr(row["before"]), repr(row["after"])) for row in rows)
    want = Counter(
        (sequence, repr(old), repr(new))
        for sequence, couples in delivery.updates.items()
        for old, new in couples
    )
    assert got == want
    assert len({row["change_id"] for row in rows}) == len(rows)
    assert silver.pending == {}


def assert_each_message_has_one_outcome(silver: Silver, delivery: Delivery) -> None:
    ends = Counter(
        (row["partition"], row["offset"])
        for row in silver.changes
        if row["kind"] in ("row", "duplicate", "quarantined")
    )
    ends.update(
        (row["paired_with"]["partition"], row["paired_with"]["offset"])
        for row in silver.changes
        if row["paired_with"]
    )
    assert ends == Counter((row["partition"], row["offset"]) for batch in delivery.batches for row in batch)


@given(deliveries(has_keys=False))
def test_each_update_without_a_key_is_one_row_however_its_halves_come(delivery: Delivery) -> None:
    silver = Silver()
    for batch in delivery.batches:
        silver.take(batch)
    assert_each_update_is_one_row(silver, delivery)
    assert_each_message_has_one_outcome(silver, delivery)


@given(deliveries(most=6))
def test_each_update_is_one_row_when_all_halves_come_in_one_batch(delivery: Delivery) -> None:
    silver = Silver()
    silver.take([row for batch in delivery.batches for row in batch])
    silver.take([], deadline=HOUR)
    assert_each_update_is_one_row(silver, delivery)
    assert_each_message_has_one_outcome(silver, delivery)


@given(deliveries())
def test_each_image_is_in_one_row_however_its_half_comes(delivery: Delivery) -> None:
    silver = Silver()
    for batch in delivery.batches:
        silver.take(batch)
    silver.take([], deadline=HOUR)
    lone = {sequence for sequence, couples in delivery.updates.items() if len(couples) == 1}
    rows = [row for row in silver.changes if row["kind"] == "row"]
    for side, place in (("before", 0), ("after", 1)):
        got = Counter((row["sequence"], repr(row[side])) for row in rows)
        assert got == Counter(
            (s, repr(couple[place])) for s, couples in delivery.updates.items() for couple in couples
        )
    assert all(
        (row["before"], row["after"]) in delivery.updates[row["sequence"]]
        for row in rows
        if row["sequence"] in lone
    )
    assert_each_message_has_one_outcome(silver, delivery)
    assert silver.pending == {}


@given(deliveries(has_keys=False))
def test_releases_between_the_batches_lead_to_the_same_complete_updates(delivery: Delivery) -> None:
    silver = Silver()
    for batch in delivery.batches:
        afters = [row for row in batch if row["half"] == "after"]
        silver.take(afters, deadline=HOUR)
    silver.take(
        [row for batch in delivery.batches for row in batch if row["half"] == "before"], deadline=HOUR
    )
    complete = {
        row["change_id"]: row for row in silver.changes if row["kind"] == "row" and row["half"] is None
    }
    assert Counter(
        (r["sequence"], repr(r["before"]), repr(r["after"])) for r in complete.values()
    ) == Counter((sequence, repr(old), repr(new)) for sequence, ((old, new),) in delivery.updates.items())
    for lone in (row for row in silver.changes if row["kind"] == "row" and row["half"] == "after"):
        assert complete[lone["change_id"]]["sequence"] == lone["sequence"]
    assert silver.pending == {}


def test_two_halves_with_different_keys_are_a_key_change_where_no_position_is_shared() -> None:
    (changed,) = pair([before(JOE, 0), after({"id": "9", "name": "Zoe"}, 0, partition=1)])
    assert (changed["kind"], changed["before"], changed["after"]["id"]) == ("row", JOE, "9")


SHARED = {"is_shared": True, "deadline": HOUR}
ZOE: dict[str, str | None] = {"id": "9", "name": "Zoe"}


@pytest.mark.parametrize("place", [{"offset": 1}, {"offset": 0, "partition": 1}])
@pytest.mark.parametrize("image", [ZOE, {**JOE, "id": "9"}], ids=["other values", "equal values"])
def test_two_halves_with_different_keys_wait_where_updates_share_positions(
    place: dict[str, int], image: dict[str, str | None]
) -> None:
    """Each may have a partner with its own key, which is still to come, even if they are adjacent."""
    halves = [before(JOE, 0, is_shared=True), after(image, is_shared=True, **place)]
    assert [row["kind"] for row in pair(halves)] == ["half", "half"]


def test_two_halves_with_different_keys_are_one_update_when_both_have_waited() -> None:
    halves = [waiting(before(JOE, 0, **SHARED)), waiting(after(ZOE, 1, **SHARED))]
    assert summary(pair(halves)) == [("row", 1, JOE, ZOE)]
    younger = {**halves[1], "event_time": 2 * HOUR}
    assert pair([halves[0], younger]) == []


def test_the_order_of_one_partition_distinguishes_key_changes_when_all_have_waited() -> None:
    images = (JOE, {**JOE, "id": "8"}, BOB, ZOE)
    sides = (before, after, before, after)
    halves = [side(image, n, **SHARED) for n, (side, image) in enumerate(zip(sides, images, strict=True))]
    assert sorted(summary(pair(halves)), key=lambda f: f[1]) == [
        ("row", 1, JOE, {**JOE, "id": "8"}),
        ("row", 3, BOB, ZOE),
    ]
    early = [{**row, "deadline": None} for row in halves]
    assert [row["kind"] for row in pair(early)] == ["half"] * 4
    spread = [{**row, "partition": n // 2} for n, row in enumerate(halves)]
    assert [(row["kind"], row["reason"]) for row in pair(spread)] == [("quarantined", "ambiguous_pair")] * 4
