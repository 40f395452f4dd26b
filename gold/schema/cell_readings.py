"""How cells are read whose column had another type when they were sent.

Silver has the text of a cell in the type of its own row. Where the type of the replica's column is another
one, the text is read as the source converts values to that type.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from enum import StrEnum

from pyspark.sql import Column
from pyspark.sql import functions as F

from gold.schema.columns import ColumnNaming, TableColumn
from gold.schema.type_inference import ColumnEvidence

_TRUTHS = {"1": "true", "0": "false"}
_DATE = r"^\d{4}-\d{2}-\d{2}\z"
_IS_DATE = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
_MIDNIGHT = "T00:00:00"


class Reading(StrEnum):
    """How the cells of a column are read in rows of one naming."""

    MIDNIGHT = "midnight"
    """A date is the wall time at which it begins."""


def with_readings(
    namings: Sequence[ColumnNaming],
    columns: Iterable[TableColumn],
    evidence: Mapping[tuple[int, str], ColumnEvidence],
) -> tuple[ColumnNaming, ...]:
    """The namings with how the cells of their rows are read in the types of the replica.

    Defaults are texts of these types then: statements also write 1 and 0 for booleans.

    Args:
        namings: The namings of a table's rows.
        columns: The columns of its replica.
        evidence: What the rows show of each column, by naming and name.
    """
    kinds = {column.name: column.type for column in columns}
    days: dict[int, set[str]] = {}
    for (naming, name), shown in evidence.items():
        column = namings[naming].current_name(name)
        if column is not None and kinds.get(column) == "timestamp_ntz" and "date" in shown.types:
            days.setdefault(naming, set()).add(column)
    return tuple(
        replace(
            naming,
            defaults={name: _default(text, kinds.get(name)) for name, text in naming.defaults.items()},
            readings=dict.fromkeys(days.get(number, ()), Reading.MIDNIGHT),
        )
        for number, naming in enumerate(namings)
    )


def _default(text: str, kind: str | None) -> str:
    if kind == "boolean":
        return _TRUTHS.get(text, text)
    return read_text(text, Reading.MIDNIGHT) if kind == "timestamp_ntz" else text


def read_text(text: str, reading: str | None) -> str:
    """The text of a cell as its column is read; unchanged without a reading, and where it does not fit it."""
    if reading == Reading.MIDNIGHT and _IS_DATE.fullmatch(text):
        return text + _MIDNIGHT
    return text


def read_column(text: Column, reading: Column) -> Column:
    """The same with Spark."""
    is_day = (reading == Reading.MIDNIGHT) & text.rlike(_DATE)
    return F.when(is_day, F.concat(text, F.lit(_MIDNIGHT))).otherwise(text)
