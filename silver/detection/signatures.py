"""Signatures: the signs by which formats with the same envelope are distinguished.

Most formats need none: no other decoder reads their messages. A format that names another one in
`shares_envelope_with` has a `signature`. Where two formats name each other, both signatures count equally.
Where only one names the other, it is a variant: a message with its signature belongs to the variant, whatever
the signature of the other says. The signature of a format is a field of its `FORMAT`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from silver.decoding.format import Format


def share_envelope(formats: Mapping[str, Format], name: str, other: str) -> bool:
    """Whether two formats have the same envelope: at least one of them names the other."""
    return other in formats[name].shares_envelope_with or name in formats[other].shares_envelope_with


def signatures_of(
    formats: Mapping[str, Format], names: Iterable[str], document: Mapping[str, Any]
) -> dict[str, str]:
    """The sign in a message of each of these formats, by name.

    Formats without a sign are left out. So is a format if one of its variants has a sign.
    """
    marks = {name: mark for name in names if (mark := formats[name].signature(document)) is not None}
    return {
        name: mark for name, mark in marks.items() if not any(_is_variant(formats, v, name) for v in marks)
    }


def _is_variant(formats: Mapping[str, Format], variant: str, name: str) -> bool:
    return name in formats[variant].shares_envelope_with and variant not in formats[name].shares_envelope_with
