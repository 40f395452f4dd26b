"""Images of Spanner: a change stream records some columns, and the connector writes null for the others.

    value_capture_type        u: `after`            u: `before`          d: `before`
    OLD_AND_NEW_VALUES        changed columns       changed columns      the row
    NEW_VALUES                changed columns       the key              the key
    NEW_ROW                   the row               the key              the key
    NEW_ROW_AND_OLD_VALUES    the row               changed columns      the row

The first is what a change stream records unless it is told otherwise. The key is in every image. Where both
images are of the changed columns, a null in both of them is a column that did not change, so both leave it
out. A null in `after` alone is a value. Under NEW_VALUES nothing distinguishes the two.
"""

from __future__ import annotations

from collections.abc import Container
from typing import Any

from msgspec import Raw

from framework.contracts.quarantine_reasons import Malformed, Reason
from silver.envelopes.debezium.source_block import SourceBlock

_CHANGED_COLUMNS = frozenset({"OLD_AND_NEW_VALUES", "NEW_VALUES"})
_DELETED_ROW = frozenset({"OLD_AND_NEW_VALUES", "NEW_ROW_AND_OLD_VALUES"})
_AMBIGUOUS = (
    "an update whose nulls may be columns that did not change: "
    "have the change stream record OLD_AND_NEW_VALUES or NEW_ROW"
)

Cells = dict[str, Any]


def recorded_columns(
    source: SourceBlock, before: Cells | None, after: Cells | None, keys: Container[str]
) -> tuple[Cells | None, Cells | None]:
    """The images of an update or a delete with the columns that the change stream has recorded.

    They are as they were sent where the message does not say what is recorded. Raises `Malformed` for an
    update that does not show which columns have changed.
    """
    recorded = source.text("value_capture_type")
    if recorded is None or (after is None and recorded in _DELETED_ROW):
        return before, after
    unknown = {name for name in (*(before or ()), *(after or ())) if name not in keys}
    unknown = {name for name in unknown if _is_null(before, name)}
    if after is None or recorded not in _CHANGED_COLUMNS:
        return _without(before, unknown), after
    unchanged = {name for name in unknown if _is_null(after, name)}
    if recorded == "OLD_AND_NEW_VALUES" and before is not None:
        return _without(before, unchanged), _without(after, unchanged)
    if unchanged:
        raise Malformed(Reason.MISSING_IMAGE, _AMBIGUOUS)
    return _without(before, unknown), after


def _is_null(image: Cells | None, name: str) -> bool:
    cell = (image or {}).get(name)
    return cell is None or (type(cell) is Raw and bytes(cell) == b"null")


def _without(image: Cells | None, names: Container[str]) -> Cells | None:
    return image and {name: cell for name, cell in image.items() if name not in names}
