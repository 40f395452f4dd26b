"""Which rows of snapshots are of the same full load, by their sequences.

sequence of a row                                          its load
without a position (`silver/values/sequence.py`)           that of its epoch
with a time, and the tie-breakers of a broker or file      that of its epoch
a position, 0, a number (a snapshot's rows in Debezium)    that at this position
any other position (an incremental snapshot, a seed)       none
"""

from __future__ import annotations

import re

from pyspark.sql import Column
from pyspark.sql import functions as F

from framework.contracts.events import Op

_NUMBERS = r"^\d+\.011[\d.]*$"
_PLACE_OF_SNAPSHOT = r"^(.*\.010)\.\d+$"


def load_of(sequence: Column) -> Column:
    """A text that identifies the full load of a snapshot's row; null where it is of none."""
    place = F.nullif(F.regexp_extract(sequence, _PLACE_OF_SNAPSHOT, 1), F.lit(""))
    return F.when(sequence.rlike(_NUMBERS), place).otherwise(F.substring_index(sequence, ".", 1))


def is_of_load(op: Column, sequence: Column) -> Column:
    """Whether a change is a row of a full load."""
    return (op == "read") & load_of(sequence).isNotNull()


def is_in_load(op: str, sequence: str) -> bool:
    """The same for one change in this process."""
    is_plain = re.match(_NUMBERS, sequence, re.ASCII) is not None
    return op == Op.READ and (not is_plain or re.match(_PLACE_OF_SNAPSHOT, sequence, re.ASCII) is not None)
