"""Headers of producers as they land: none of them can be mistaken for one of Mainstem's own headers."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from framework.contracts.messages import OURS


def escape_reserved_headers(headers: Column) -> Column:
    """Renames headers that begin with Mainstem's prefix, as `foreign_name` does."""

    def renamed(header: Column) -> Column:
        name = readable_text(header["key"])
        landed = F.when(name.startswith(OURS), F.concat(F.lit(OURS), name)).otherwise(name)
        return F.when(header.isNotNull(), F.struct(landed.alias("key"), header["value"].alias("value")))

    return F.transform(headers, renamed)


def readable_text(text: Column) -> Column:
    """The text.

    Bytes that are not UTF-8 become hex digits, because Spark stores them and Python cannot read them.
    """
    return F.when(F.is_valid_utf8(text), text).otherwise(
        F.concat(F.lit("not-utf8:"), F.hex(text.cast("binary")))
    )
