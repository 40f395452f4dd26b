"""What a sequence tells of its row: its epoch; of a snapshot's row also its full load.

sequence of a row                                          its load
without a position (`silver/values/sequence.py`)           that of its epoch
with a time, and the tie-breakers of a broker or file      that of its epoch
a position, 0, a number (a snapshot's rows in Debezium)    that at this position
the same with tie-breakers (a table without a key)         that at this position
any other position (an incremental snapshot, a seed)       none
"""

WITHOUT_POSITION = "^[0-9]+[.]010[.]"
"""How the sequence of a snapshot's row without a position begins, as a regular expression."""
NUMBERS = r"^\d+\.011[\d.]*$"
"""A sequence with a position, without tie-breakers, as a regular expression of Java, Python and RE2."""
PLACE_OF_SNAPSHOT = r"^(.*\.010)\.\d+$"
"""A sequence that names its load: the group."""
PLACE_WITH_TIE = r"^(\d+\.011(?:\.\d+){4}\.010)\.\d+\.[^.]*\D[^.]*(?:\.\d+){3}$"
"""The same for a sequence with tie-breakers; only Debezium's positions have six numbers."""


def epoch_part(sequence: str) -> str:
    """The epoch as the sequence writes it; empty for an empty text. Later epochs have greater texts."""
    return sequence.partition(".")[0]
