from __future__ import annotations

from hashlib import blake2b

from hypothesis import given
from hypothesis import strategies as st

from framework.contracts.events import Image
from silver.changes.change_id import change_id, digest, image_parts, key_values

TEXTS = st.text(max_size=5) | st.sampled_from(("x" * 299, "x" * 300, "x" * 1000, "é" * 400, "数\ud800"))
IMAGES = st.none() | st.dictionaries(st.text(max_size=3), st.none() | TEXTS, max_size=4)
PARTS = st.lists(st.one_of(st.none(), st.text(max_size=5)), max_size=5)


def test_a_digest_is_32_hexadecimal_characters_and_never_changes() -> None:
    assert digest(("shop", None, "orders")) == "96a284b66111d05cb62c0cdd7c711d47"


@given(PARTS, PARTS)
def test_two_lists_have_one_digest_only_if_they_are_equal(
    one: list[str | None], other: list[str | None]
) -> None:
    assert (digest(one) == digest(other)) == (one == other)


def test_null_empty_text_and_nothing_differ() -> None:
    assert len({digest(()), digest((None,)), digest(("",)), digest(("n",)), digest((None, None))}) == 5


def test_parts_do_not_run_together() -> None:
    assert digest(("ab", "c")) != digest(("a", "bc"))
    assert digest(("1:a",)) != digest(("a",))


def test_text_that_no_utf8_has_still_has_a_digest() -> None:
    assert digest(("\ud800",)) != digest(("\ud801",))


def test_key_values_are_in_the_keys_order_and_keep_nulls() -> None:
    assert key_values(["b", "a"], {"a": "1", "b": None, "c": "x"}) == (None, "1")


def test_no_key_or_no_image_or_a_missing_part_gives_no_key_values() -> None:
    assert key_values(None, {"a": "1"}) is None
    assert key_values([], {"a": "1"}) is None
    assert key_values(["a"], None) is None
    assert key_values(["a", "b"], {"a": "1"}) is None


def test_images_are_compared_without_the_order_of_their_columns() -> None:
    assert (
        image_parts({"a": "1", "b": None}) == image_parts({"b": None, "a": "1"}) == ["2", "a", "1", "b", None]
    )


def test_no_image_empty_image_and_null_column_differ() -> None:
    assert len({digest(image_parts(image)) for image in (None, {}, {"a": None}, {"a": ""})}) == 4


@given(PARTS)
def test_a_digest_is_that_of_the_parts_with_their_lengths_in_bytes(parts: list[str | None]) -> None:
    joined = b""
    for part in parts:
        data = b"" if part is None else part.encode("utf-8", "surrogatepass")
        joined += b"n" if part is None else str(len(data)).encode() + b":" + data
    assert digest(parts) == blake2b(joined, digest_size=16).hexdigest()


@given(IMAGES, IMAGES, st.text(max_size=3))
def test_the_id_of_a_row_is_the_digest_of_its_place_position_and_images(
    before: Image | None, after: Image | None, table: str
) -> None:
    row = dict.fromkeys(("identity", "schema", "event_time"), None) | {
        "source": "feed", "database": "shop", "table": table, "kind": "row", "op": "update", "block": None,
        "position": "011.015", "sequence": "011.015", "before": before, "after": after,
    }  # fmt: skip
    parts = (
        "feed",
        "shop",
        None,
        table,
        "row",
        "update",
        "011.015",
        *image_parts(before),
        *image_parts(after),
    )
    assert change_id(row) == digest(parts)


@given(st.lists(st.none() | TEXTS, min_size=1, max_size=3), st.text(max_size=3))
def test_the_id_of_a_change_that_its_feed_identifies_is_the_digest_of_its_identity_and_key(
    key: list[str | None], identity: str
) -> None:
    image = {f"key {number}": value for number, value in enumerate(key)}
    row = dict.fromkeys(("schema", "event_time", "before", "block", "position"), None) | {
        "source": "feed", "database": "shop", "table": "orders", "kind": "row", "op": "insert",
        "identity": identity, "keys": tuple(image), "after": {"other": "x", **image}, "sequence": "011.015",
    }  # fmt: skip
    place = ("feed", "shop", None, "orders", "row", "insert")
    assert change_id(row) == digest((*place, identity, *key))
    assert change_id({**row, "keys": None}) == digest((*place, identity, *image_parts(row["after"])))
