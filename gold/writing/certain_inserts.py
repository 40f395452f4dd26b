"""Whether inserts certainly met no row: a look in this process that saves a Spark job.

`gold.writing.collisions` counts inserts and loaded rows that met a row with other values. A table that is
written from all its changes has fewer rows than inserts as soon as one row was deleted, so that it would be
asked for most tables. This module says only where surely none met a row that was there; else Spark is asked.
"""

from __future__ import annotations

from collections.abc import Sequence

from framework.contracts.events import Image, Op
from gold.changes.few_changes import FewChange
from gold.planning.plan import Plan
from gold.writing.certain_fit import is_only_text

_Key = tuple[str, ...]


def certainly_meet_none(rows: Sequence[FewChange], plan: Plan) -> bool:
    """Whether no insert and no loaded row among all changes of a table reached a key that was there.

    False also where that needs more than the texts of the keys: other names or keys in the past, keys of
    types with several texts for a value, changes without a whole key, or with the same position.
    """
    layout = plan.layout
    if plan.former_keys is not None or not all(naming.keeps_images for naming in plan.namings):
        return False
    if len({row.sequence for row in rows}) < len(rows):
        return False
    keys = [(column.name, column.type) for column in layout.key_columns]
    there: set[_Key] = set()
    for row in sorted(rows, key=lambda change: change.sequence):
        before, after = _key_in(row.before, keys), _key_in(row.after, keys)
        if row.op == Op.DELETE:
            gone = after if row.before is None else before
            if gone is None:
                return False
            there.discard(gone)
            continue
        if after is None or (row.op in (Op.INSERT, Op.READ) and after in there):
            return False
        if row.op == Op.UPDATE and before is not None:
            there.discard(before)
        there.add(after)
    return True


def _key_in(image: Image | None, keys: Sequence[tuple[str, str]]) -> _Key | None:
    """The key in an image; None where a part of it is missing, null, or has a text that others may equal."""
    if image is None:
        return None
    found = []
    for name, kind in keys:
        text = image.get(name)
        if text is None or not is_only_text(text, kind):
            return None
        found.append(text)
    return tuple(found)
