"""Texts of cells, of all types and nearly so."""

from __future__ import annotations

import random

KINDS = (
    "string", "boolean", "tinyint", "smallint", "int", "bigint", "float", "double", "date", "timestamp",
    "timestamp_ntz", "binary", "decimal(5,2)", "decimal(38,0)", "decimal(38,38)", "decimal(20,10)",
)  # fmt: skip
WORDS = ("true", "false", "True", "NaN", "Infinity", "1E5", "-0", "0.0", "", " 1", "1 ", "1\n")


def drawn_text(source: random.Random) -> str:
    """A text that fits some types, or nearly does."""

    def digits(most: int) -> str:
        return "".join(source.choices("0123456789", k=source.randint(1, most)))

    def zeros() -> str:
        return "0" * source.randrange(3)

    parts = [
        lambda: source.choice(("", "-", "+", "0")) + digits(42),
        lambda: source.choice(("", "-")) + zeros() + digits(20) + "." + digits(40) + zeros(),
        lambda: source.choice(WORDS),
        lambda: _moment(source),
        lambda: "".join(source.choices("ABCxyz019+/=", k=source.choice((0, 2, 3, 4, 8)))),
        lambda: source.choice(("AQ==", "AR==", "AQI=", "/+8=")),
    ]  # fmt: skip
    return source.choice(parts)()


def _moment(source: random.Random) -> str:
    year, month, day = (
        source.choice((0, 1, 1582, 1600, 1900, 2023, 2024, 9999)),
        source.randint(0, 13),
        source.randint(0, 32),
    )
    text = f"{year:04}-{month:02}-{day:02}"
    if source.random() < 0.3:
        return text
    text += f"T{source.randint(0, 24):02}:{source.randint(0, 60):02}:{source.randint(0, 60):02}"
    if source.random() < 0.5:
        text += "." + "".join(source.choices("0123456789", k=source.randint(1, 8)))
    return text + source.choice(("", "Z"))
