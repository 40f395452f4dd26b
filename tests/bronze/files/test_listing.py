from __future__ import annotations

from collections.abc import Callable, Sequence

from bronze.files.listing import Clock, ListedFile, digest, list_complete

NOW = 1_000_000_000


def found(name: str, modified_at: int = 0, size: int = 1) -> ListedFile:
    return ListedFile(name, f"/landing/{name}", size, modified_at)


def looks(*listings: Sequence[ListedFile]) -> Callable[[], Sequence[ListedFile]]:
    pending = iter(listings)
    return lambda: next(pending)


def clock(waits: list[int] | None = None) -> Clock:
    return Clock(now=lambda: NOW, wait=(waits if waits is not None else []).append)


def test_old_files_are_complete_at_the_first_look() -> None:
    listing = list_complete(looks([found("b", 5), found("c", 3), found("a", 5)]), {}, clock())
    assert [each.file for each in listing.complete] == ["c", "a", "b"]
    assert listing.waiting == ()


def test_fresh_file_that_stands_still_is_complete_after_one_wait() -> None:
    waits: list[int] = []
    fresh = [found("a", NOW - 1000), found("b", NOW - 2000)]
    listing = list_complete(looks(fresh, fresh), {}, clock(waits))
    assert ([each.file for each in listing.complete], waits) == (["b", "a"], [1_000_000])


def test_file_with_a_time_in_the_future_is_complete_when_it_stands_still() -> None:
    ahead = [found("a", NOW + 86_400_000_000)]
    assert list_complete(looks(ahead, ahead), {}, clock()).complete == tuple(ahead)


def test_growing_file_waits_and_the_others_do_not() -> None:
    first = [found("a", NOW - 1000, 10), found("b", 1)]
    second = [found("a", NOW + 900_000, 20), found("b", 1)]
    listing = list_complete(looks(first, second), {}, clock())
    assert ([each.file for each in listing.complete], listing.waiting) == (["b"], ("a",))


def test_file_that_appears_during_the_wait_waits() -> None:
    listing = list_complete(looks([found("a", NOW)], [found("a", NOW), found("b", NOW)]), {}, clock())
    assert ([each.file for each in listing.complete], listing.waiting) == (["a"], ("b",))


def test_file_that_disappears_during_the_wait_is_neither() -> None:
    listing = list_complete(looks([found("a", NOW)], []), {}, clock())
    assert (listing.complete, listing.waiting) == ((), ())


def test_known_fresh_file_needs_no_wait() -> None:
    waits: list[int] = []
    list_complete(looks([found("a", NOW)]), {"a": found("a", NOW)}, clock(waits))
    assert waits == []


def test_digest_ignores_the_order_and_notices_each_part() -> None:
    same = digest([found("a"), found("b")])
    assert digest([found("b"), found("a")]) == same
    assert (
        len(
            {
                same,
                digest([found("a")]),
                digest([found("a"), found("b", 1)]),
                digest([found("a"), found("b", 0, 2)]),
            }
        )
        == 4
    )
