"""What silver recorded of the changes of its batches, so that gold plans without reading them.

It is used only where it surely is what a scan would find now: silver has recorded every batch that counts, it
has not decoded the table again since, no statement lies between the changes of a batch, and none is late.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from framework.contracts.change_measures import ChangeMeasures, GroupMeasure, measures_of_text
from framework.contracts.ddl_actions import DropColumn, RenameColumn
from framework.contracts.events import Token
from framework.contracts.table_names import BATCHES_TABLE
from framework.lakehouse.table_reader import Query, Row, TableReader
from gold.changes.effects import column_change_counts
from gold.changes.profile import ChangeGroup, Progress, SchemaColumn
from gold.planning.table_state import State, TableId, table_id
from gold.planning.task import RecordedBatch, Task
from gold.schema.lineage import Lineage
from gold.schema.type_inference import ColumnEvidence, is_decimal

_EPOCH = datetime(1970, 1, 1)
_RECORDED = Query(
    BATCHES_TABLE,
    "SELECT `source`, `database`, `schema`, `table`, `batch`, `reason`, `rows`, `measures` FROM {rows} "
    "WHERE `kind` = 'row' AND `table` IS NOT NULL AND `batch` > {since}",
    {"measures": "string"},
)


class NotMeasured(Exception):
    """A scan of the changes must measure what silver has not recorded."""


def with_recorded(tables: TableReader, tasks: Sequence[Task]) -> list[Task]:
    """Adds to each table what silver has recorded of the changes that it has not applied.

    Parked tables are left out: the batches that they have not applied become more and more.
    """
    firsts = [
        task.first_new
        for task in tasks
        if task.state.state is not State.PARKED and task.first_new is not None
    ]
    if not firsts:
        return list(tasks)
    found: dict[TableId, list[RecordedBatch]] = {}
    seen: set[tuple[TableId, int, str | None]] = set()
    for row in tables.rows(_RECORDED, since=min(firsts) - 1):
        place = table_id(row)
        once = (place, row["batch"], row["reason"])
        measures = None if once in seen else _measures(row)
        seen.add(once)
        found.setdefault(place, []).append(RecordedBatch(row["batch"], place[1], measures))
    return [
        task if task.state.state is State.PARKED else replace(task, recorded=_of_task(task, found))
        for task in tasks
    ]


def recorded_schemas(tasks: Iterable[Task]) -> set[str]:
    """The ids of the schemas of the changes that silver has recorded for these tables."""
    batches = (batch.measures for task in tasks for batch in task.recorded if batch.measures is not None)
    return {group.schema_id for measures in batches for group in measures.groups if group.schema_id}


def _of_task(task: Task, found: Mapping[TableId, Sequence[RecordedBatch]]) -> tuple[RecordedBatch, ...]:
    names = {segment.table for segment in task.lineage.segments}
    mine = (batch for name in names for batch in found.get((task.source, name), ()))
    return tuple(batch for batch in mine if task.state.batch < batch.batch <= task.top)


def _measures(row: Row) -> ChangeMeasures | None:
    """The measures of a row; None where it has none, or where they are not those of its changes."""
    measures = measures_of_text(row["measures"])
    return measures if measures is not None and measures.rows == row["rows"] else None


@dataclass(frozen=True, slots=True)
class RecordedMeasurements:
    """Measurements of row changes from what silver recorded of them."""

    groups_found: Sequence[ChangeGroup]
    batches: Sequence[tuple[int, ChangeMeasures]]
    schemas: Mapping[str, Sequence[SchemaColumn]] = field(repr=False)

    def groups(self) -> Sequence[ChangeGroup]:
        """One group for each naming, schema, key and operation of the changes of a batch."""
        return self.groups_found

    def names_with_values(self, names: Set[str]) -> Set[tuple[int, str | None, str]]:
        """Raises NotMeasured: a scan must find them."""
        raise NotMeasured(str(sorted(names)[:1]))

    def widths(self, names: Set[str]) -> Mapping[tuple[int, str], ColumnEvidence]:
        """The widths of the numbers in these columns, by naming and name.

        Raises:
            NotMeasured: For a column that has values in a batch that did not measure them. Of a column that
                some rows declare as a decimal, only the others may be measured.
        """
        found: dict[tuple[int, str], ColumnEvidence] = {}
        for naming, measures in self.batches:
            decimals = {column.name for column in self._columns(measures) if is_decimal(column.type or "")}
            for name in names:
                width = None if name in decimals else measures.widths.get(name)
                if width is not None:
                    shown = ColumnEvidence(
                        digits=width.digits, scale=width.scale, low=width.low, high=width.high,
                        has_others=width.has_others,
                    )  # fmt: skip
                    found[naming, name] = found.get((naming, name), ColumnEvidence()) | shown
                elif self._may_have_values(measures, name):
                    raise NotMeasured(name)
        return found

    def _may_have_values(self, measures: ChangeMeasures, name: str) -> bool:
        return any(column.name == name and column.token != Token.NULL for column in self._columns(measures))

    def _columns(self, measures: ChangeMeasures) -> Iterator[SchemaColumn]:
        """The columns of all schemas of the changes."""
        for schema_id in {group.schema_id or "" for group in measures.groups}:
            yield from self.schemas.get(schema_id, ())


def recorded_measurements(
    task: Task,
    lineage: Lineage,
    since: int,
    applied: Progress,
    schemas: Mapping[str, Sequence[SchemaColumn]],
) -> RecordedMeasurements | None:
    """The measurements of a table's changes after a batch; None where a scan must take them.

    Args:
        task: The table, with what is recorded of it.
        lineage: Its lineage, with names as the rows spell them.
        since: The batch after which the changes begin.
        applied: What is applied to the table.
        schemas: The columns of every schema that the changes name.
    """
    # a repair replaces changes under the number of their batch
    if task.is_repaired or since != task.state.batch:
        return None
    if any(isinstance(action, DropColumn | RenameColumn) for _, action in lineage.column_changes):
        return None
    groups: list[ChangeGroup] = []
    batches: list[tuple[int, ChangeMeasures]] = []
    for batch in task.recorded:
        naming = _naming_of(batch, lineage)
        if naming is None or batch.measures is None:
            return None
        if any(group.low <= (applied.sequence or "") for group in batch.measures.groups):
            return None
        groups += [_change_group(group, naming) for group in batch.measures.groups]
        batches.append((naming, batch.measures))
    return RecordedMeasurements(groups, batches, schemas) if groups else None


def _naming_of(batch: RecordedBatch, lineage: Lineage) -> int | None:
    """The naming of all changes of a batch; None where they have several, or not all are the table's."""
    if batch.measures is None or not batch.measures.groups:
        return None
    low = min(group.low for group in batch.measures.groups)
    high = max(group.high for group in batch.measures.groups)
    is_inside = any(
        segment.table == batch.name and segment.start <= low and (segment.end is None or high < segment.end)
        for segment in lineage.segments
    )
    counts = column_change_counts(lineage)
    before, behind = (
        max((count for start, count in counts.items() if start <= end), default=0) for end in (low, high)
    )
    return before if is_inside and before == behind else None


def _change_group(group: GroupMeasure, naming: int) -> ChangeGroup:
    """The group of new changes, none of which is late."""
    time = None if group.event_time is None else _EPOCH + timedelta(microseconds=group.event_time)
    return ChangeGroup(
        naming,
        group.schema_id,
        group.keys,
        group.op,
        rows=group.rows,
        new=group.rows,
        late=0,
        low=group.low,
        high=group.high,
        event_time=time,
        loaded=group.loaded,
        has_partials=group.has_partials,
        has_key_changes=group.has_key_changes,
        has_partial_key_changes=group.has_partial_key_changes,
    )
