"""Formats numbers, times and foreign text for people."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

# Characters that would hide, move or break the text around them, besides those without a code point.
_SPOKEN = frozenset("\u00ad\u034f\u061c\u180e\u200b\u200e\u200f\u2028\u2029\u2060\ufeff\ufff9\ufffa\ufffb")
_UNITS = (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1))


def pieces(text: str) -> Iterator[tuple[str, bool]]:
    """The parts of a text: as they are, or (True) the name of an invisible character, such as `U+202E`.

    Line feeds and tabs are shown as they are. Joined again, the parts have every character of the text.
    """
    if text.isprintable():
        yield text, False
        return
    plain = ""
    for character in text:
        if not is_unseen(character):
            plain += character
            continue
        if plain:
            yield plain, False
            plain = ""
        yield f"U+{ord(character):04X}", True
    if plain:
        yield plain, False


def is_unseen(character: str) -> bool:
    """Whether a character is invisible: controls, bidirectional marks, line separators, lone surrogates."""
    if character in "\n\t":
        return False
    if character in _SPOKEN:
        return True
    category = unicodedata.category(character)
    return category in ("Cc", "Cs", "Co", "Cn", "Zl", "Zp") or (
        category == "Cf" and unicodedata.bidirectional(character) in _BIDI
    )


_BIDI = frozenset({"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"})


def one_line(text: str, longest: int | None = None) -> str:
    """The text on one line: invisible characters by name, cut where it is too long."""
    flat = (
        "".join(f"⟨{piece}⟩" if is_name else piece for piece, is_name in pieces(text))
        .replace("\n", "⏎")
        .replace("\t", " ")
    )
    return flat if longest is None or len(flat) <= longest else f"{flat[: longest - 1]}…"


def number(value: int | None) -> str:
    """A count, `1,204`; a dash for one that is not known."""
    return "–" if value is None else f"{value:,}"


def quantity(count: int | None, one: str, many: str | None = None) -> str:
    """A count with its noun: `1 file`, `1,204 files`; `– files` for a count that is not known.

    The noun may bring its verb: `quantity(n, "message waits", "messages wait")`.

    Args:
        count: The number of things; null means unknown.
        one: The words that follow the number 1.
        many: The words that follow every other number; `one` and an s where it is left out.
    """
    return f"{number(count)} {noun_for(count, one, many)}"


def noun_for(count: float | None, one: str, many: str | None = None) -> str:
    """The words that follow a count: `one` after the number 1, else `many` (`one` and an s if left out)."""
    return one if count == 1 else many or f"{one}s"


def short_number(value: float) -> str:
    """A count in few characters: `950`, `1.2 k`, `34 M`."""
    for unit, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if value >= size:
            scaled = value / size
            return f"{scaled:.0f} {unit}" if scaled >= 99.5 else f"{scaled:.1f} {unit}".replace(".0 ", " ")
    return f"{value:.0f}" if value == int(value) else f"{value:.1f}"


def moment(value: datetime | None) -> str:
    """A time in UTC to the second; a dash for none."""
    return "–" if value is None else value.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S")


def span(value: timedelta | float | None) -> str:
    """A length of time in its two greatest units: `2 d 4 h`, `3.1 s`; a dash for none."""
    if value is None:
        return "–"
    seconds = value.total_seconds() if isinstance(value, timedelta) else value
    if seconds < 0:
        return f"−{span(-seconds)}"
    if seconds < 60:
        return f"{seconds:.1f} s"
    rest = int(seconds)
    parts: list[str] = []
    for unit, size in _UNITS:
        if rest >= size or parts:
            parts.append(f"{rest // size:,} {unit}")
            rest %= size
        if len(parts) == 2:
            break
    return " ".join(part for at, part in enumerate(parts) if at == 0 or not part.startswith("0 "))


def byte_size(count: int) -> str:
    """A size: `512 bytes`, `1.2 KiB`."""
    if count < 1024:
        return quantity(count, "byte")
    return f"{count / 1024:,.1f} KiB" if count < 1024**2 else f"{count / 1024**2:,.1f} MiB"
