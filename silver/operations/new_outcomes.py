"""The checks of the change table by its new rows alone, in this process: the usual case of a small run.

They only find that everything holds. Whatever does not, or cannot be told from the new rows of both tables,
is left to Spark (`reconciliation`), which names what is wrong.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from framework.contracts.expectations import CheckTarget, Finding, Rule
from framework.contracts.table_names import CHANGES_TABLE, MESSAGES_TABLE
from framework.contracts.table_schemas import CHANGES, MESSAGE_AT, MESSAGE_ID
from framework.lakehouse.local_tables import in_micros
from framework.pipeline.layer import Run
from framework.quality.batch_log import BatchLog
from framework.quality.memory import Memory
from framework.quality.row_checks import passed
from silver.batches.landings import SourceEpochs
from silver.epochs.assignment import LandedMessage, epoch_finder
from silver.operations.offset_spans import (
    NO_BROKER,
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
    transactions_told,
)

_PLACED = (*MESSAGE_AT, "ingested_at", "file", "line", "timestamp")
_Id = tuple[Any, ...]
"""The values of MESSAGE_ID."""


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
    changes = memory.new_rows(CHANGES_TABLE, memory.marks.get(CHANGES_TABLE), CHANGES.names)
    if changes is None or not log.has_counted(changes["batch"].to_pylist(), memory.batch):
        return None
    if not _is_whole(changes, [value for rule in shape for value in rule.values]):
        return None
    findings = [passed(rule, changes.num_rows) for rule in target.rules]
    if not run.config.quality.reconciliation:
        return findings
    last = memory.previous.of(target.id, ACCOUNTED.name)
    if not memory.is_first and (last is None or not held >= {ACCOUNTED.name, TRACEABLE.name, ONCE.name}):
        return None
    judged = last.checked_count if last is not None else 0
    has_transactions = log.has_transactions(memory.batch)
    messages = memory.new_rows(
        MESSAGES_TABLE,
        memory.marks.get(MESSAGES_TABLE),
        (*_PLACED, *(("value",) if has_transactions else ())),
    )
    ids = None if messages is None else _message_ids(messages, run, epochs)
    if messages is None or ids is None or set(_outcome_ids(changes)) != ids.keys():
        return None
    gaps = _gaps(memory, epochs, ids)
    transactions = _transactions(changes, messages) if has_transactions else []
    if gaps is None or transactions is None:
        return None
    return [*findings, *all_accounted(judged + messages.num_rows, len(ids)), gaps, *transactions]


def _is_continued(memory: Memory, target: CheckTarget) -> bool:
    """Whether the last verdicts are about the tables as they were when the memory was written."""
    if memory.is_first:
        return True
    mark = memory.marks.get(CHANGES_TABLE)
    past = memory.previous.results.get(target.id, ())
    return mark is not None and {(r.version, r.batch) for r in past} == {(mark.version, memory.batch)}


def _is_whole(changes: pa.Table, kinds: Sequence[Any]) -> bool:
    """Whether the rows hold the rules of the change table: coordinates, a known kind, images where due."""
    if any(changes[name].null_count for name in (*MESSAGE_AT, "batch", "kind")):
        return False
    if not pc.all(pc.is_in(changes["kind"], value_set=pa.array(kinds, pa.string())), min_count=0).as_py():
        return False
    rows = changes.filter(pc.is_in(changes["kind"], value_set=pa.array(["row"])))
    if any(rows[name].null_count for name in ("change_id", "op", "table")):
        return False
    return (
        rows.filter(pc.invert(pc.is_in(rows["op"], value_set=pa.array(["delete"]))))["after"].null_count == 0
    )


def _message_ids(messages: pa.Table, run: Run, epochs: SourceEpochs) -> Counter[_Id] | None:
    """How often each message (MESSAGE_ID) landed; None where one landed twice that should not."""
    find = epoch_finder(epochs.history, epochs.configured)
    sources = run.config.sources.keys() - epochs.history.stopped_sources().keys()
    found: Counter[_Id] = Counter()
    for *at, ingested, file, line, sent in _rows(in_micros(messages, ("ingested_at", "timestamp")), _PLACED):
        source, topic, partition, offset = at
        if source in sources:
            landing = (ingested or 0, file or "", line or 0)
            epoch = find(LandedMessage(source, topic, partition, offset, landing, sent))
            found[source, topic, partition, offset, epoch] += 1
    again = epochs.history.sources_by_landing()
    for (source, *_), count in found.items():
        if count > 1 and (source in again or not may_land_twice(run.config, source)):
            return None
    return found


def _gaps(memory: Memory, epochs: SourceEpochs, ids: Iterable[_Id]) -> Finding | None:
    """The finding about the offsets of brokers; None where the new messages alone do not tell."""
    kafka = brokers(memory.run.config)
    if not kafka:
        return NO_BROKER
    mine = [message for message in ids if message[0] in kafka]
    known = kept_spans(memory, epochs)
    found = None if known is None else joined_spans(known, spans_of(mine))
    if found is None:
        return None
    keep_spans(memory, epochs, found)
    return told(found, len(mine))


def _transactions(changes: pa.Table, messages: pa.Table) -> list[Finding] | None:
    """The finding about transactions that end in new messages; None where one lacks new changes."""
    values = {tuple(at): value for *at, value in _rows(messages, (*MESSAGE_AT, "value"))}
    ends, present = set(), dict[tuple[str, str], set[tuple[Any, ...]]]()
    columns = (*MESSAGE_AT, "ordinal", "kind", "transaction_id")
    for *at, ordinal, kind, transaction in _rows(changes, columns):
        if kind != "transaction":
            if transaction is not None:
                present.setdefault((at[0], transaction), set()).add((*at, ordinal))
        elif transaction is not None:
            announced = _announced(values.get(tuple(at)))
            if announced is not None:
                ends.add((at[0], transaction, announced))
    if any(len(present.get((source, name), ())) < announced for source, name, announced in ends):
        return None
    return [transactions_told(len(ends))]


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


def _outcome_ids(changes: pa.Table) -> Iterator[_Id]:
    """The messages of the outcomes (MESSAGE_ID), and those of the BEFORE halves of merged changes."""
    for *message, half in _rows(changes, (*MESSAGE_ID, "paired_with")):
        source, *at, epoch = message
        yield (source, *at, epoch)
        if half is not None:
            yield (source, half["topic"], half["partition"], half["offset"], epoch)


def _rows(table: pa.Table, columns: Sequence[str]) -> Iterator[tuple[Any, ...]]:
    return zip(*(table[name].to_pylist() for name in columns), strict=True)
