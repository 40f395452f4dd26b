"""Finding everything that is stored of one row, and deleting it from its replica and history."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import partial, reduce

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from framework.contracts.erasure import Erasure
from framework.contracts.table_names import BAD_VALUES_TABLE, CHANGES_TABLE, MESSAGES_TABLE
from framework.errors import ConfigurationError, MainstemError
from framework.lakehouse.deletion_vectors import purge_marked_rows
from framework.lakehouse.lakehouse import read_table
from framework.lakehouse.merge import Merge
from framework.lakehouse.older_copies import is_put_back, newest_marks
from framework.lakehouse.recorded_epochs import read_epochs
from framework.naming import in_one_case, quoted
from framework.pipeline.layer import Run, installed_layers
from framework.spark.columns import with_one_of
from framework.text.row_trace import column_word, row_words
from framework.text.times import micros_of
from gold.changes.effects import with_current_names
from gold.changes.few_changes import TableChanges
from gold.operations.row_search import (
    RowKey,
    changes_of_earlier,
    changes_of_table,
    changes_with_keys,
    rows_with_keys,
)
from gold.operations.sibling_rows import check_siblings
from gold.operations.source_messages import (
    coordinates_of,
    epoch_of,
    landings,
    row_statements,
    without_content,
)
from gold.operations.tombstones import tombstones
from gold.operations.unnamed_sources import refuse_unnamed
from gold.operations.written_tables import WrittenTable, written_tables
from gold.planning.discovery import all_tasks, earlier_tables, named_tasks, newest_task
from gold.planning.keys import table_key
from gold.planning.plan import Plan, plan_to_read, plan_without_rows
from gold.planning.rebuild import lineage_digest
from gold.planning.refusals import refuse_case_twins, refuse_mixed_key
from gold.planning.stored_schemas import StoredSchemas
from gold.planning.table_state import TableState, append_states, states_of
from gold.planning.task import Task
from gold.schema.columns import evidence_by_column
from gold.schema.layout import Layout
from gold.schema.lineage import Lineage, Segment
from gold.writing import table_changes


def find_row(
    run: Run, table: str, key: Mapping[str, str | None], follow_key_changes: bool
) -> tuple[Erasure, ...]:
    """Everything that is stored of the row with this key, in each source that has the table.

    A former name of a table stands for the table. Tables that had one of its names before and are gone
    belong to it.

    Statements about rows may hold its values, and nobody knows which of them do: all of the source are
    included, as they have no effect on any table. Rows that are excluded or in quarantine are decoded for
    the search. With `follow_key_changes`, the row's earlier and later keys are included.

    Raises:
        MainstemError: KEY_WAS_CHANGED where a key change links the row with another key and links are not
            followed: a key change has both keys, and the other row could not be rebuilt without it.
            NOTHING_TO_FORGET where there is no such row. OTHER_ROWS_WAIT where its messages hold other rows
            that silver does not have.
            COLUMNS_DIFFER_BY_CASE, KEY_TYPES_DIFFER or KEY_COLUMN_MISSING where not all rows name and write
            the key in one way.
        ConfigurationError: TABLE_UNKNOWN, KEY_NEEDED where `key` is not the table's key, or
            TABLE_OF_UNNAMED_SOURCE where a source that the configuration does not name has the table, too.
    """
    tasks, found, nothing = all_tasks(run), list[Erasure](), list[MainstemError]()
    refuse_unnamed(run, table, tasks)
    for task in named_tasks(tasks, table, run.config):
        try:
            found.append(_find_in_source(run, newest_task(tasks, task), key, follow_key_changes))
        except MainstemError as error:
            if error.condition != "NOTHING_TO_FORGET":
                raise
            nothing.append(error)
    if not found:
        raise nothing[0]
    return tuple(found)


def _find_in_source(run: Run, task: Task, key: Mapping[str, str | None], follow_key_changes: bool) -> Erasure:
    changes = run.lake.read(run.spark, CHANGES_TABLE)
    plan = plan_to_read(
        run.spark, run.lake, TableChanges(lambda: changes), task, StoredSchemas(run.spark, run.lake)
    )
    has_rows = plan is not None
    if plan is None:
        plan = plan_without_rows(task, lineage_digest(task.lineage))
    else:
        _refuse_unclear_key(plan)
        _check_key(task, key, plan.layout.keys, [column.name for column in plan.layout.columns])
    namings = plan.namings
    earlier = earlier_tables(run, task)

    def of_table(rows: DataFrame) -> DataFrame:
        own = with_current_names(changes_of_table(rows, task), task.lineage, namings)
        return own.unionByName(changes_of_earlier(rows, task, earlier, list(key))) if earlier else own

    rows_before = changes_of_earlier(changes.where("kind = 'row'"), task, earlier, list(key))
    others = [rows_before, of_table(_kept_out_rows(run, task, earlier))]
    is_half = "kind = 'half' OR (kind = 'quarantined' AND (before IS NOT NULL OR after IS NOT NULL))"
    all_halves = of_table(changes.where(is_half))
    keyed = _Keyed(task, plan.layout.keys, _column_types(plan, earlier, key))
    if not has_rows:
        rest = _newest_key([*others, all_halves])
        if rest is None:
            raise _nothing_to_forget(task, key)
        keyed = replace(keyed, keys=keyed.keys or rest or _declared_key(earlier))
        _check_key(task, key, keyed.keys, list(key))
    named = table_changes.changes_with_current_key(changes, plan)
    sought = reduce(partial(DataFrame.unionByName, allowMissingColumns=True), others, named)
    keys, matches = _linked_rows(sought, keyed, tuple(sorted(key.items())), follow_key_changes)
    halves = changes_with_keys(all_halves, keys, keyed.types).collect()
    if not matches and not halves:
        raise _nothing_to_forget(task, key)
    ids = {row["change_id"] for row in matches if row["kind"] != "quarantined"}
    is_repeat = (F.col("kind") == "duplicate") & (F.col("source") == task.source)
    duplicates = with_one_of(changes.where(is_repeat), "change_id", ids).collect() if ids else []
    name = task.name
    statements = row_statements(changes.where(F.col("source") == task.source)).collect()
    rows = [*matches, *halves, *duplicates, *statements]
    at = sorted({(place, epoch_of(row)) for row in rows for place in coordinates_of(row)})
    check_siblings(run, task, at, [*matches, *halves])
    messages = without_content(run.lake.read(run.spark, MESSAGES_TABLE))
    recorded, _ = read_epochs(run.tables)
    landed = landings(messages, changes, task.source, [place for place, _ in at], recorded)
    ends = tombstones(messages, changes, task.source, [row for rows in landed.values() for row in rows])
    if ends:
        at = sorted({*at, *ends})
        landed = landings(messages, changes, task.source, [place for place, _ in at], recorded)
    its = sorted({(*place, *_landing(row)) for place, epoch in at for row in landed.get((place, epoch), ())})
    return Erasure(
        task.source,
        name.database,
        name.schema,
        name.table,
        tuple(dict(each) for each in keys),
        tuple(sorted(ids)),
        tuple(place for place, _ in at),
        tuple(epoch for _, epoch in at),
        tuple(its),
        tuple(_former_names(task, earlier)),
    )


def _kept_out_rows(run: Run, task: Task, earlier: Sequence[Lineage]) -> DataFrame:
    find = next(layer.kept_out_rows for layer in installed_layers() if layer.kept_out_rows is not None)
    return find(run, task.source, [segment.table for segment in _segments(task, earlier)])


def _segments(task: Task, earlier: Sequence[Lineage]) -> list[Segment]:
    return [segment for each in (task.lineage, *earlier) for segment in each.segments]


def _former_names(task: Task, earlier: Sequence[Lineage]) -> list[tuple[str | None, str | None, str]]:
    names = dict.fromkeys(segment.table for segment in _segments(task, earlier))
    names.pop(task.name, None)
    return [(name.database, name.schema, name.table) for name in names]


def _landing(row: Row) -> tuple[int, str, int]:
    """When a message landed (in microseconds), and from which file and line."""
    return micros_of(row["ingested_at"]), row["file"] or "", row["line"] or 0


def erase(run: Run, erasure: Erasure) -> dict[str, int]:
    """Deletes the rows from all replicas and histories, and their listed cells.

    The states of the tables get the commits of it: an older copy would have the rows again. Returns how many
    rows it deleted.
    """
    gone, paths = {"replica_rows": 0, "history_rows": 0, "bad_values": 0}, set[str | None]()
    for written in written_tables(run, erasure):
        paths.add(written.path)
        rows = _erased_rows(read_table(run.spark, written.path), written, erasure)
        count = "history_rows" if written.is_history else "replica_rows"
        gone[count] += _delete(rows, written.path, _identity(written))
    if run.lake.exists(run.spark, BAD_VALUES_TABLE):
        listed = with_one_of(
            run.lake.read(run.spark, BAD_VALUES_TABLE).where(F.col("source") == erasure.source),
            "change_id",
            erasure.change_ids,
        )
        gone["bad_values"] = _delete(listed, run.lake.location(BAD_VALUES_TABLE), ("source", "change_id"))
    append_states(run.spark, run.lake, _with_commits(run, paths), run.run_id)
    return gone


def _with_commits(run: Run, paths: Set[str | None]) -> Iterator[TableState]:
    """The states of tables with one of these paths, whichever table wrote there, with its newest commits.

    The commits of the last runs stay beside them: they tell which rows a run has written that it did not
    publish. Without a commit since then there is nothing to note, and an older copy keeps what tells it.
    """
    for state in states_of(run.tables).values():
        stored = [path for path in (state.replica, state.history) if path is not None]
        noted = zip(stored, state.erased, strict=False)
        if not state.marks or not paths & set(stored):
            continue
        newest = newest_marks(run.spark, stored)
        is_new = newest not in (state.marks, state.erased)
        if is_new and not any(is_put_back(run.spark, path, mark) for path, mark in noted):
            yield replace(state, erased=newest)


def _delete(rows: DataFrame, path: str, identity: Sequence[str]) -> int:
    """Deletes the rows that have the same `identity` columns as `rows`, which are rows of this table."""
    ids = rows.select(*(F.col(quoted(name)).alias(f"k{i}") for i, name in enumerate(identity))).distinct()
    count = ids.count()
    if count:
        same = " AND ".join(f"t.{quoted(name)} <=> s.k{i}" for i, name in enumerate(identity))
        Merge(path, ids, same).delete().execute()
    purge_marked_rows(rows.sparkSession, path)
    return count


def _identity(written: WrittenTable) -> list[str]:
    names, keys = _gold_names(written.state), written.state.keys if written.has_its_rows else ()
    return [*(names[key] for key in keys), "_cdc_change_id"]


def _erased_rows(rows: DataFrame, written: WrittenTable, erasure: Erasure) -> DataFrame:
    """The rows of a replica or a history that come from an erased change or have one of the keys.

    A table that has not applied its newest statements and rows may have another key. There, in a table
    without a key, and where another table may have taken the place, the changes alone say which rows these
    are.
    """
    of_changes, state = with_one_of(rows, "_cdc_change_id", erasure.change_ids), written.state
    if not written.has_its_rows or not state.keys or set(state.keys) != set(erasure.keys[0]):
        return of_changes
    types = {column.name: column.type for column in state.columns}
    keys = [tuple(sorted(key.items())) for key in erasure.keys]
    return of_changes.union(rows_with_keys(rows, keys, types, _gold_names(state)))


def _gold_names(state: TableState) -> Mapping[str, str]:
    return Layout(state.columns, state.keys, {}).gold_names


def _refuse_unclear_key(plan: Plan) -> None:
    """Refuse a table whose rows name or write the key in two ways, or whose key the replica leaves out.

    A search by one of them would not find all changes of a row.

    Raises:
        MainstemError: COLUMNS_DIFFER_BY_CASE, KEY_TYPES_DIFFER or KEY_COLUMN_MISSING, as the run that parks
            the table.
    """
    task, columns = replace(plan.task, is_read_only=False), plan.layout.columns
    keys = {in_one_case(key) for key in plan.layout.keys}
    refuse_case_twins(task, [column for column in columns if in_one_case(column.name) in keys])
    refuse_mixed_key(task, plan.layout.keys, columns, evidence_by_column(plan.profile.evidence, plan.namings))
    if plan.left_out:
        table_key(task, plan.profile, plan.namings, columns)


def _column_types(plan: Plan, earlier: Sequence[Lineage], key: Mapping[str, str | None]) -> Mapping[str, str]:
    """The types of the columns of a key. A column that only tables before this one had has that of theirs."""
    known: dict[str, str | None] = {column.name: column.type for each in earlier for column in each.created}
    known |= {column.name: column.type for column in plan.layout.columns}
    return {name: known.get(name) or "string" for name in (*key, *plan.layout.keys)}


def _newest_key(others: Sequence[DataFrame]) -> tuple[str, ...] | None:
    """The key that the newest of these rows with one names; empty without such a row, None without a row."""
    rows = reduce(DataFrame.unionByName, (each.select("sequence", "keys") for each in others))
    key = F.max_by("keys", F.when(F.size("keys") > 0, F.col("sequence"))).alias("key")
    found = rows.agg(F.count("*").alias("rows"), key).first()
    return tuple(found["key"] or ()) if found is not None and found["rows"] else None


def _declared_key(earlier: Sequence[Lineage]) -> tuple[str, ...]:
    declared = [keys for each in earlier for _, keys in each.keys]
    return declared[-1] if declared else ()


def _check_key(task: Task, key: Mapping[str, str | None], keys: Sequence[str], names: Sequence[str]) -> None:
    is_right = set(key) == set(keys) if keys else set(key) <= set(names)
    if not is_right:
        raise ConfigurationError(
            "KEY_NEEDED",
            found=f"the columns {', '.join(sorted(key))}",
            where=task.name.dotted,
            action="name the whole key, and nothing else: "
            + " ".join(f"{column_word(name)}=…" for name in keys or names[:5]),
        )


@dataclass(frozen=True, slots=True)
class _Keyed:
    """A table, the columns of its key, and the types of the columns by which a row is sought."""

    task: Task
    keys: tuple[str, ...]
    types: Mapping[str, str]


def _linked_rows(
    named: DataFrame, keyed: _Keyed, key: RowKey, follow_key_changes: bool
) -> tuple[list[RowKey], list[Row]]:
    """The keys that key changes link with a key, that key first, and the changes that have one of them.

    Each round looks for the keys that the previous one has found.

    Raises:
        MainstemError: KEY_WAS_CHANGED where there are such keys and links are not followed.
    """
    keys: dict[RowKey, None] = {key: None}
    matches: dict[object, Row] = {}
    newest = [key]
    while newest:
        found = changes_with_keys(named, newest, keyed.types).collect()
        matches.update(((row["batch"], row["ordinal"], *coordinates_of(row)), row) for row in found)
        others = _keys_in(found, keyed.keys)
        # a key with another text that has the same value needs no round of its own
        keys.update((each, None) for each, is_wanted in others.items() if is_wanted)
        newest = [each for each in others if each not in keys]
        if newest and not follow_key_changes:
            raise _key_was_changed(keyed.task, newest)
        keys.update(dict.fromkeys(newest))
    return list(keys), list(matches.values())


def _keys_in(rows: Sequence[Row], keys: Sequence[str]) -> dict[RowKey, bool]:
    """The different keys of the changes, and whether each is one of those that were looked for.

    An image has a key where it has all columns of it: some of them may be null.
    """
    found: dict[RowKey, bool] = {}
    for row in rows if keys else ():
        before, after = row["before"] or {}, row["after"] or {}
        for image, is_wanted in ((before, row["has_before"]), ({**before, **after}, row["has_after"])):
            if all(name in image for name in keys):
                found[tuple(sorted((name, image[name]) for name in keys))] = is_wanted
    return found


def _key_was_changed(task: Task, keys: Sequence[RowKey]) -> MainstemError:
    return MainstemError(
        "KEY_WAS_CHANGED",
        found=f"changes that link the row with {', '.join(row_words(dict(key)) for key in keys[:5])}",
        where=task.name.dotted,
        action="with --follow all rows that had one of these keys are forgotten: trace them first, "
        "a key may have had two owners",
    )


def _nothing_to_forget(task: Task, key: Mapping[str, str | None]) -> MainstemError:
    return MainstemError(
        "NOTHING_TO_FORGET",
        found="no change of silver has these values",
        where=f"{task.name.dotted} {row_words(key)}",
        action="write the values as `trace` shows them; messages that have not been read yet need a `run`"
        " first, and messages in quarantine that cannot be decoded may hold the row, too",
    )
