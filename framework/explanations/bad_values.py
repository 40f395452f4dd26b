"""Explanations of the reasons in `ops/bad_values`."""

from __future__ import annotations

from framework.explanations.explanation import Explanation

_TYPE = (
    "Correct the value in the source, or give the column another type under `tables: columns:`, then "
    "`mainstem rebuild TABLE --from bronze`."
)

EXPLANATIONS = (
    Explanation(
        "bad_key",
        "A column of the key has no value of its type, so the change is not applied.",
        "The source has a value that the type does not hold, or the change lacks the column.",
        _TYPE,
        "Found: the key `n/a` in a column of type int.",
    ),
    Explanation(
        "bad_value",
        "A cell has no value of the type of its column: it is null.",
        "The source has a value such as `0000-00-00`, or the configured type is too narrow.",
        _TYPE,
        "Write: `columns: {price: {type: string}}`.",
    ),
    Explanation(
        "not_listed",
        "Further cells do not fit, and are not listed: `text` is their number.",
        "A batch has very many such cells.",
        "Do what the listed cells of the table need.",
        'Do: `mainstem sql "SELECT * FROM ops.bad_values"`.',
    ),
    Explanation(
        "precision",
        "Digits beyond microseconds were cut off a time.",
        "The source keeps nanoseconds.",
        "Nothing, if microseconds are enough. Otherwise write `type: string` for the column, then `mainstem "
        "rebuild TABLE --from bronze`.",
        "Found: `2024-03-01 09:00:00.123456789`. Kept: `2024-03-01 09:00:00.123456`.",
    ),
)
"""In the order of the alphabet."""
