"""The few changes of a small run as rows in this process: their profile takes no Spark job.

A property test holds these measurements against those of Spark (`profile_queries`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import reduce
from typing import Any, NoReturn

import pyarrow as pa
from pyarrow import compute
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from framework.contracts.ddl_actions import TableName
from framework.contracts.events import Image, Op
from framework.lakehouse.table_reader import in_utc
from gold.changes.effects import column_change_counts
from gold.changes.full_loads import is_in_load
from gold.changes.profile import ChangeGroup, Progress
from gold.schema.cell_readings import read_text
from gold.schema.columns import ColumnNaming
from gold.schema.lineage import Lineage
from gold.schema.type_inference import ColumnEvidence, widths_of

pc: Any = compute  # its types lack some functions

_COLUMNS = (
    "change_id", "source", "database", "schema", "table", "kind", "batch", "op", "sequence", "event_time",
    "keys", "before", "after", "partial", "half", "schema_id",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class FewChange:
    """A row change; `naming` is the number of column changes before it. Times are naive, in UTC."""

    change_id: str
    naming: int
    batch: int
    op: str
    sequence: str
    event_time: Any
    keys: tuple[str, ...] | None
    before: Image | None
    after: Image | None
    is_partial: bool
    is_half: bool
    schema_id: str | None

    @property
    def image(self) -> Image | None:
        """The image that says what a row is, or was before its delete."""
        return self.after if self.op != Op.DELETE or self.before is None else self.before

    @property
    def images(self) -> list[Image]:
        """The images that the change has."""
        return [image for image in (self.before, self.after) if image is not None]

    @property
    def is_key_change(self) -> bool:
        """Whether it is an update that may change the key."""
        if self.op != Op.UPDATE or self.before is None:
            return False
        before, after = self.before, self.after or {}
        return self.keys is None or any(before.get(name) != after.get(name) for name in self.keys)


def row_changes(changes: pa.Table, source: str, lineage: Lineage) -> list[FewChange]:
    """The row changes of a table among rows of `silver/changes`: those in all its segments."""
    return [
        FewChange(
            row["change_id"],
            naming,
            row["batch"],
            row["op"],
            row["sequence"],
            in_utc(row["event_time"]),
            None if row["keys"] is None else tuple(row["keys"]),
            _image(row["before"]),
            _image(row["after"]),
            bool(row["partial"]),
            row["half"] is not None,
            row["schema_id"],
        )
        for naming, row in _rows_of_table(changes.select(list(_COLUMNS)), source, lineage)
    ]


def current_changes(
    changes: pa.Table, source: str, lineage: Lineage, namings: Sequence[ColumnNaming]
) -> list[dict[str, Any]]:
    """The row changes of a table with current column names.

    They are rows of `silver/changes` with mappings as images, and naive times in UTC;
    `table_changes.current_changes` gives the same rows.
    """
    found = []
    for naming, row in _rows_of_table(changes, source, lineage):
        own, before, after = namings[naming], _image(row["before"]), _image(row["after"])
        images = {
            "before": None if before is None else _renamed(before, own, has_defaults=True),
            "after": None if after is None else _renamed(after, own, has_defaults=not row["partial"]),
        }
        found.append({**row, **images, "event_time": in_utc(row["event_time"])})
    return found


def _renamed(image: Image, naming: ColumnNaming, *, has_defaults: bool) -> Image:
    today = {naming.current_name(name): value for name, value in image.items()}
    own = {
        name: None if value is None else read_text(value, naming.readings.get(name))
        for name, value in today.items()
        if name is not None
    }
    return {**(naming.defaults if has_defaults else {}), **own}


def rows_under_names(changes: pa.Table, source: str, lineage: Lineage) -> pa.Table:
    """The rows of `silver/changes` that came under one of the names that a table has had."""
    is_mine = reduce(pc.or_kleene, (_came_under(changes, segment.table) for segment in lineage.segments))
    return changes.filter(pc.and_kleene(is_mine, pc.equal(changes["source"], source)))


def _came_under(changes: pa.Table, name: TableName) -> pa.ChunkedArray[Any]:
    parts = (("table", name.table), ("schema", name.schema), ("database", name.database))
    return reduce(
        pc.and_kleene,
        (
            pc.is_null(changes[column]) if part is None else pc.equal(changes[column], part)
            for column, part in parts
        ),
    )


def _rows_of_table(
    changes: pa.Table, source: str, lineage: Lineage
) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """The rows of the table's segments, each with the number of column changes before it."""
    counts = column_change_counts(lineage)
    for row in rows_under_names(changes, source, lineage).to_pylist():
        sequence = row["sequence"]
        if row["kind"] != "row" or sequence is None:
            continue
        name = TableName(row["database"], row["schema"], row["table"])
        if not any(
            segment.table == name
            and segment.start <= sequence
            and (segment.end is None or sequence < segment.end)
            for segment in lineage.segments
        ):
            continue
        yield max((count for start, count in counts.items() if start <= sequence), default=0), row


def _image(entries: Sequence[tuple[str, str | None]] | None) -> Image | None:
    return None if entries is None else dict(entries)


@dataclass(frozen=True, slots=True)
class TableChanges:
    """Changes of silver, those of one table among them.

    A frame of them is made where somebody needs one: Spark takes as long to make it as to merge few rows.

    Attributes:
        all_rows: Makes the rows of `silver/changes`.
        few: The row changes of the table in batches after `since`, if they are in this process; None where
            they are too many.
        since: The batch after which `few` and `recent` begin; -1 where they are all changes.
        recent: Makes those of the rows that are in batches after `since`; None where they are found among all
            rows alone.
    """

    all_rows: Callable[[], DataFrame]
    few: Sequence[FewChange] | None = None
    since: int = -1
    recent: Callable[[], DataFrame] | None = None

    def few_after(self, batch: int) -> list[FewChange] | None:
        """The row changes of the table after a batch; None where they are not in this process."""
        if self.few is None or batch < self.since:
            return None
        return [change for change in self.few if change.batch > batch]

    def after(self, batch: int) -> DataFrame:
        """The rows in batches after this one."""
        rows = self.all_rows if self.recent is None or batch < self.since else self.recent
        return rows().where(F.col("batch") > batch)


@dataclass(frozen=True, slots=True)
class OnlyFew:
    """All row changes of a table in this process, to plan the table without a session."""

    few: Sequence[FewChange]

    def few_after(self, batch: int) -> list[FewChange]:
        """The row changes after a batch."""
        return [change for change in self.few if change.batch > batch]

    def after(self, batch: int) -> NoReturn:
        """Raises ValueError: nobody needs the rows in Spark as well."""
        raise ValueError(f"the changes after batch {batch} are in this process alone")


@dataclass(frozen=True, slots=True)
class FewMeasurements:
    """Measures row changes in this process; `applied` says which of them are new."""

    rows: Sequence[FewChange]
    applied: Progress

    def groups(self) -> Sequence[ChangeGroup]:
        """One group for each naming, schema, key and operation of the changes."""
        grouped: dict[tuple[int, str | None, tuple[str, ...] | None, str], list[FewChange]] = {}
        for row in self.rows:
            grouped.setdefault((row.naming, row.schema_id, row.keys, row.op), []).append(row)
        return [self._group(*place, rows) for place, rows in grouped.items()]

    def _group(
        self,
        naming: int,
        schema_id: str | None,
        keys: tuple[str, ...] | None,
        op: str,
        rows: Sequence[FewChange],
    ) -> ChangeGroup:
        new = [row for row in rows if row.batch > self.applied.batch]
        return ChangeGroup(
            naming,
            schema_id,
            keys,
            op,
            rows=len(rows),
            new=len(new),
            late=sum(row.sequence <= (self.applied.sequence or "") for row in new),
            low=min(row.sequence for row in rows),
            high=max(row.sequence for row in rows),
            event_time=max((row.event_time for row in rows if row.event_time is not None), default=None),
            loaded=sum(is_in_load(op, row.sequence) for row in rows),
            has_partials=any(row.is_partial for row in rows),
            has_key_changes=any(row.is_key_change for row in rows),
            has_partial_key_changes=any(row.is_key_change and row.is_partial for row in rows),
        )

    def names_with_values(self, names: Set[str]) -> Set[tuple[int, str | None, str]]:
        """The naming, schema and name of those of the columns that have a value in some image."""
        return {
            (row.naming, row.schema_id, name)
            for row in self.rows
            for image in row.images
            for name in names
            if image.get(name) is not None
        }

    def widths(self, names: Set[str]) -> Mapping[tuple[int, str], ColumnEvidence]:
        """The widths of the numbers in these columns, by naming and name."""
        texts: dict[tuple[int, str], set[str]] = {}
        for row in self.rows:
            for image in row.images:
                for name in names:
                    text = image.get(name)
                    if text is not None:
                        texts.setdefault((row.naming, name), set()).add(text)
        return {column: widths_of(found) for column, found in texts.items()}
