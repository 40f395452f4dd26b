from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from silver.decoding import Format
from silver.detection.signatures import share_envelope, signatures_of
from silver.formats import FORMATS


def with_mark(name: str, *others: str) -> Format:
    """A format whose signature is a member with its name."""

    def signature(document: Mapping[str, Any]) -> str | None:
        return f"the member {name}" if name in document else None

    return replace(FORMATS["maxwell"], name=name, shares_envelope_with=others, signature=signature)


KNOWN = {
    "base": with_mark("base"),
    "variant": with_mark("variant", "base"),
    "left": with_mark("left", "right"),
    "right": with_mark("right", "left"),
}


def test_a_message_with_one_signature_belongs_to_that_format() -> None:
    assert signatures_of(KNOWN, ("left", "right"), {"left": 1}) == {"left": "the member left"}
    assert signatures_of(KNOWN, ("left", "right"), {}) == {}


def test_the_signature_of_a_variant_counts_before_that_of_the_format_that_it_names() -> None:
    both = {"base": 1, "variant": 1}
    assert signatures_of(KNOWN, ("base", "variant"), both) == {"variant": "the member variant"}
    assert signatures_of(KNOWN, ("base", "variant"), {"base": 1}) == {"base": "the member base"}


def test_formats_that_name_each_other_are_equals() -> None:
    assert set(signatures_of(KNOWN, ("left", "right"), {"left": 1, "right": 1})) == {"left", "right"}


def test_formats_share_an_envelope_if_one_names_the_other() -> None:
    assert share_envelope(KNOWN, "base", "variant")
    assert share_envelope(KNOWN, "variant", "base")
    assert not share_envelope(KNOWN, "left", "base")


def test_formats_name_formats() -> None:
    for fmt in FORMATS.values():
        assert set(fmt.shares_envelope_with) <= set(FORMATS) - {fmt.name}, fmt.name
