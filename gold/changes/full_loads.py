"""What the sequences of snapshots' rows tell (`framework/contracts/full_loads.py` has the rules)."""

from __future__ import annotations

import re

from pyspark.sql import Column
from pyspark.sql import functions as F

from framework.contracts.events import Op
from framework.contracts.full_loads import NUMBERS, PLACE_OF_SNAPSHOT, PLACE_WITH_TIE, WITHOUT_POSITION


def load_of(sequence: Column) -> Column:
    """A text that identifies the full load of a snapshot's row; null where it is of none."""
    place, tied = (
        F.nullif(F.regexp_extract(sequence, form, 1), F.lit(""))
        for form in (PLACE_OF_SNAPSHOT, PLACE_WITH_TIE)
    )
    of_epoch = F.substring_index(sequence, ".", 1)
    return F.when(sequence.rlike(NUMBERS), place).otherwise(F.coalesce(tied, of_epoch))


def is_of_load(op: Column, sequence: Column) -> Column:
    """Whether a change is a row of a full load."""
    return (op == "read") & load_of(sequence).isNotNull()


def has_no_position(sequence: Column) -> Column:
    """Whether a sequence is that of a row of a snapshot that has no position."""
    return sequence.rlike(WITHOUT_POSITION)


def is_in_load(op: str, sequence: str) -> bool:
    """The same for one change in this process."""
    is_plain = re.match(NUMBERS, sequence, re.ASCII) is not None
    return op == Op.READ and (not is_plain or re.match(PLACE_OF_SNAPSHOT, sequence, re.ASCII) is not None)
