"""The checks of the change table by its new rows alone, in this process, column by column: the usual case.

They only find that everything holds. Whatever does not, or cannot be told from the new rows of both tables,
is left to Spark (`reconciliation`), which names what is wrong.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa
from pyarrow import compute

from framework.contracts.epochs import LandedMessage
from framework.contracts.expectations import CheckTarget, Finding, Rule
from framework.contracts.table_names import CHANGES_TABLE, MESSAGES_TABLE
from framework.contracts.table_schemas import MESSAGE_AT, MESSAGE_ID
from framework.lakehouse.local_tables import DataFile, in_micros, parts_of_files
from framework.lakehouse.numbered_rows import Numbers
from framework.pipeline.layer import Run
from framework.quality.batch_log import BatchLog, new_changes
from framework.quality.memory import Memory
from framework.quality.row_checks import passed
from silver.batches.source_epochs import SourceEpochs
from silver.epochs.assignment import (
    epoch_finder,
    epochs_by_source,
    sources_with_epochs,
)
from silver.operations.offset_spans import (
    NO_BROKER,
    Partition,
    brokers,
    joined_spans,
    keep_spans,
    kept_spans,
    spans_of,
    told,
)
from silver.operations.reconciliation import (
    ACCOUNTED,
    ONCE,
    TRACEABLE,
    all_accounted,
    may_land_twice,
)
from silver.operations.transactions import TRANSACTIONS, Lacks, lacks_of

pc: Any = compute  # its types lack some functions
_LANDING = ("ingested_at", "file", "line", "timestamp")
_TIMES = ("ingested_at", "timestamp")
_REPEATED = ("source", "topic")
_COLUMNS: Any = [
    ("place", pa.int32()), ("offset", pa.int64()), ("landed", pa.int64()), ("outcomes", pa.bool_()),
]  # fmt: skip
_IDS = pa.schema(_COLUMNS)
"""Messages: the number of their partition, their offset, and whether it is a landing or an outcome."""
_FEW_IMAGES = 4_096
"""An image can have thousands of names."""


def known_findings(
    memory: Memory, target: CheckTarget, epochs: SourceEpochs, log: BatchLog | None, shape: Sequence[Rule]
) -> list[Finding] | None:
    """The findings of the change table, where its new rows and those of bronze show that all rules hold.

    None where they do not show it: the last verdicts were others, or somebody else has written to a table.

    Args:
        memory: What the step keeps.
        target: The change table.
        epochs: The epochs of the sources.
        log: `ops/batches`.
        shape: The rules of the change table's rows that are checked here.
    """
    run, past = memory.run, memory.previous.results.get(target.id, ())
    held = {result.rule for result in past if result.success}
    is_checked = set(target.rules) <= set(shape)
    is_known = memory.is_first or held >= {rule.name for rule in target.rules}
    if log is None or not is_checked or not is_known or not _is_continued(memory, target):
        return None
    changes = new_changes(memory, log)
    if changes is None or not _are_whole(changes, [value for rule in shape for value in rule.values]):
        return None
    findings = [passed(rule, sum(file.rows for file in changes)) for rule in target.rules]
    if not run.config.quality.reconciliation:
        return findings
    last = memory.previous.of(target.id, ACCOUNTED.name)
    if not memory.is_first and (last is None or not held >= {ACCOUNTED.name, TRACEABLE.name, ONCE.name}):
        return None
    judged = last.checked_count if last is not None else 0
    messages = memory.new_files(MESSAGES_TABLE, memory.marks.get(MESSAGES_TABLE))
    compared = None if messages is None else _compared(messages, changes, run, epochs)
    if messages is None or compared is None:
        return None
    gaps = _gaps(memory, epochs, compared)
    lacks = lacks_of(memory.previous.of(target.id, TRANSACTIONS.name), run.config.sources)
    transactions = _transactions(memory, lacks) if lacks or log.has_transactions(memory.batch) else []
    if gaps is None or transactions is None:
        return None
    count = judged + sum(file.rows for file in messages)
    return [*findings, *all_accounted(count, compared.ids.num_rows), gaps, *transactions]


def _is_continued(memory: Memory, target: CheckTarget) -> bool:
    """Whether the last verdicts are about the tables as they were when the memory was written."""
    if memory.is_first:
        return True
    mark = memory.marks.get(CHANGES_TABLE)
    past = memory.previous.results.get(target.id, ())
    return mark is not None and {(r.version, r.batch) for r in past} == {(mark.version, memory.batch)}


def _are_whole(changes: Sequence[DataFile], kinds: Sequence[object]) -> bool:
    """Whether the rows hold the rules of the change table: coordinates, a known kind, images where due."""
    is_known = partial(pc.is_in, value_set=pa.array(kinds, pa.string()))
    for part in parts_of_files(changes, (*MESSAGE_AT, "batch", "kind", "change_id", "op", "table")):
        if any(part[name].null_count for name in (*MESSAGE_AT, "batch", "kind")):
            return False
        if not pc.all(is_known(part["kind"]), min_count=0).as_py():
            return False
        rows = part.filter(_is(part["kind"], "row"))
        if any(rows[name].null_count for name in ("change_id", "op", "table")):
            return False
    for part in parts_of_files(changes, ("kind", "op", "after.key_value.key"), _FEW_IMAGES):
        is_due = pc.and_not(_is(part["kind"], "row"), _is(part["op"], "delete"))
        if part.filter(is_due)["after"].null_count:
            return False
    return True


def _is(texts: Any, text: str) -> Any:
    return pc.is_in(texts, value_set=pa.array([text]))


@dataclass(frozen=True, slots=True)
class _Compared:
    """Messages that all have an outcome, and outcomes that all have their message.

    Attributes:
        partitions: Source, topic, partition and epoch, by number.
        ids: `place`, the number of a partition, and `offset` of each message.
    """

    partitions: Sequence[Partition]
    ids: pa.Table


def _compared(
    messages: Sequence[DataFile], changes: Sequence[DataFile], run: Run, epochs: SourceEpochs
) -> _Compared | None:
    """The messages and outcomes; None where they differ, or where a message landed twice that should not."""
    places = Numbers()
    parts = [*_landed(messages, places, run, epochs), *_outcomes(changes, places)]
    ids = pa.concat_tables([_IDS.empty_table(), *parts]).group_by(["place", "offset"])
    found = ids.aggregate([("landed", "sum"), ("outcomes", "max")])
    if not pc.all(pc.and_(pc.greater(found["landed_sum"], 0), found["outcomes_max"]), min_count=0).as_py():
        return None
    again = epochs.history.sources_by_landing()
    twice: Any = found.filter(pc.greater(found["landed_sum"], 1))["place"].unique()
    for source in {places.values[place][0] for place in twice.to_pylist()}:
        if source in again or not may_land_twice(run.config, source):
            return None
    return _Compared(places.values, found)


def _landed(
    messages: Sequence[DataFile], places: Numbers, run: Run, epochs: SourceEpochs
) -> Iterator[pa.Table]:
    """The messages of sources that go on: `place`, `offset`, and 1 for `landed`."""
    several = sources_with_epochs(epochs.history)
    sources = pa.array(
        sorted(run.config.sources.keys() - epochs.history.stopped_sources().keys()), pa.string()
    )
    columns = (*MESSAGE_AT, *(_LANDING if several else ()))
    for part in parts_of_files(messages, columns, repeated=_REPEATED):
        mine = part.filter(pc.is_in(part["source"].cast(pa.string()), value_set=sources))
        if mine.num_rows:
            yield _numbered(mine, _epochs_of(mine, several, epochs), places, has_landed=True)


def _epochs_of(messages: pa.RecordBatch, several: Collection[str], epochs: SourceEpochs) -> Any:
    """The epoch of each message: the same for all messages of most sources."""
    found: Any = epochs_by_source(messages["source"], epochs.newest)
    if several:
        is_one: Any = pc.is_in(messages["source"].cast(pa.string()), value_set=pa.array(sorted(several)))
        rows = _rows(in_micros(pa.table(messages.filter(is_one)), _TIMES), (*MESSAGE_AT, *_LANDING))
        find = epoch_finder(epochs.history, epochs.newest)
        own = [
            find(
                LandedMessage(source, topic, partition, offset, (ingested or 0, file or "", line or 0), sent)
            )
            for source, topic, partition, offset, ingested, file, line, sent in rows
        ]
        found = pc.replace_with_mask(found, is_one, pa.array(own, pa.int32()))
    return found


def _outcomes(changes: Sequence[DataFile], places: Numbers) -> Iterator[pa.Table]:
    """The messages of the outcomes, and those of the BEFORE halves of merged changes, as `_landed`."""
    for part in parts_of_files(changes, (*MESSAGE_ID, "paired_with"), repeated=_REPEATED):
        yield _numbered(part, part["epoch"], places, has_landed=False)
        paired: Any = part.filter(pc.is_valid(part["paired_with"]))
        if paired.num_rows:
            topic, partition, offset = paired["paired_with"].flatten()
            columns = [paired["source"], topic, partition, offset]
            halves = pa.RecordBatch.from_arrays(columns, names=list(MESSAGE_AT))
            yield _numbered(halves, paired["epoch"], places, has_landed=False)


def _numbered(rows: pa.RecordBatch, epochs: Any, places: Numbers, *, has_landed: bool) -> pa.Table:
    count, at = rows.num_rows, [rows[name] for name in ("source", "topic", "partition")]
    made = {
        "place": places.of([*at, epochs]),
        "offset": rows["offset"],
        "landed": pa.repeat(int(has_landed), count),
        "outcomes": pa.repeat(not has_landed, count),
    }
    return pa.table(made, _IDS)


def _gaps(memory: Memory, epochs: SourceEpochs, compared: _Compared) -> Finding | None:
    """The finding about the offsets of brokers; None where the new messages alone do not tell."""
    kafka = brokers(memory.run.config)
    if not kafka:
        return NO_BROKER
    mine = [number for number, (source, *_) in enumerate(compared.partitions) if source in kafka]
    ids = compared.ids.filter(pc.is_in(compared.ids["place"], value_set=pa.array(mine, pa.int32())))
    known = kept_spans(memory, epochs)
    found = None if known is None else joined_spans(known, spans_of(ids, compared.partitions))
    if found is None:
        return None
    keep_spans(memory, epochs, found)
    return told(found, ids.num_rows)


def _transactions(memory: Memory, lacks: Lacks) -> list[Finding] | None:
    """The finding about transactions that end in new messages; None where one lacks new changes.

    Those that lacked changes before are carried on; None where new changes may be theirs. It is left to Spark
    where the new rows are not few: it reads the values of messages.
    """
    columns = (*MESSAGE_AT, "ordinal", "kind", "transaction_id")
    changes = memory.new_rows(CHANGES_TABLE, memory.marks.get(CHANGES_TABLE), columns)
    messages = memory.new_rows(MESSAGES_TABLE, memory.marks.get(MESSAGES_TABLE), (*MESSAGE_AT, "value"))
    return None if changes is None or messages is None else _told_transactions(changes, messages, lacks)


def _told_transactions(changes: pa.Table, messages: pa.Table, lacks: Lacks) -> list[Finding] | None:
    values = {tuple(at): value for *at, value in _rows(messages, (*MESSAGE_AT, "value"))}
    ends, present = set(), dict[tuple[str, str], set[tuple[Any, ...]]]()
    for *at, ordinal, kind, transaction in _rows(changes, changes.column_names):
        if kind != "transaction":
            if transaction is not None:
                present.setdefault((at[0], transaction), set()).add((*at, ordinal))
        elif transaction is not None:
            announced = _announced(values.get(tuple(at)))
            if announced is not None:
                ends.add((at[0], transaction, announced))
    if any(len(present.get((source, name), ())) < announced for source, name, announced in ends):
        return None
    ended = {(source, name) for source, name, _ in ends}
    if lacks.others and not present.keys() <= ended:
        return None
    if any((one.source, one.name) in present.keys() | ended for one in lacks.named):
        return None
    return [lacks.told(len(ends))]


def _announced(value: bytes | None) -> int | None:
    """How many changes the END message of a transaction counts; None where it counts none."""
    try:
        said = json.loads(value or b"null")
    except ValueError:
        return None
    for part in (said, said.get("payload") if isinstance(said, dict) else None):
        count = part.get("event_count") if isinstance(part, dict) else None
        if count is not None:
            return int(count)
    return None


def _rows(table: pa.Table, columns: Sequence[str]) -> Iterator[tuple[Any, ...]]:
    return zip(*(table[name].to_pylist() for name in columns), strict=True)
