from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from bronze.listing import Clock, FoundFile, digest, list_complete, list_local
from framework.errors import MainstemError

NOW = 1_000_000_000


def found(name: str, modified_at: int = 0, size: int = 1) -> FoundFile:
    return FoundFile(name, f"/landing/{name}", size, modified_at)


def looks(*listings: Sequence[FoundFile]) -> Callable[[], Sequence[FoundFile]]:
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


def test_hidden_and_unfinished_names_are_not_listed(tmp_path: Path) -> None:
    for name in (".a", "_b", "c.tmp", "d.part", "e.partial", "f.crdownload", "g.inprogress", "h._COPYING_", "i.txt", "j.tmp.txt"):
        (tmp_path / name).write_bytes(b"x")
    (tmp_path / "_temporary").mkdir()
    (tmp_path / "_temporary" / "k.txt").write_bytes(b"x")
    assert sorted(each.file for each in list_local(str(tmp_path))) == ["i.txt", "j.tmp.txt"]


def test_subfolders_are_listed_by_their_path_below_the_folder(tmp_path: Path) -> None:
    (tmp_path / "2024" / "数 量").mkdir(parents=True)
    path = tmp_path / "2024" / "数 量" / "[a].txt"
    path.write_bytes(b"abc")
    os.utime(path, ns=(1_234_567_891_234, 1_234_567_891_234))
    assert list_local(str(tmp_path)) == [FoundFile("2024/数 量/[a].txt", str(path), 3, 1_234_567_891)]


def test_links_are_followed_once_and_what_is_no_file_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "a.txt").write_bytes(b"x")
    (tmp_path / "real" / "loop").symlink_to(tmp_path)
    (tmp_path / "gone").symlink_to(tmp_path / "nothing")
    os.mkfifo(tmp_path / "pipe")
    assert [each.file for each in list_local(str(tmp_path))] == ["real/a.txt"]


def test_missing_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(MainstemError) as raised:
        list_local(str(tmp_path / "nothing"))
    assert raised.value.condition == "LANDING_FOLDER_MISSING"


def test_digest_ignores_the_order_and_notices_each_part() -> None:
    same = digest([found("a"), found("b")])
    assert digest([found("b"), found("a")]) == same
    assert len({same, digest([found("a")]), digest([found("a"), found("b", 1)]), digest([found("a"), found("b", 0, 2)])}) == 4
