"""What people are told of a table that was brought up to date, beside its numbers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from framework.contracts.ddl_actions import AddColumn
from framework.contracts.table_names import BAD_VALUES_TABLE
from framework.text.formatting import quantity
from gold.planning.converted_columns import converted_columns
from gold.planning.keys import ignored_keys
from gold.planning.plan import Plan
from gold.planning.rebuild import RebuildReason
from gold.planning.table_state import Collisions
from gold.schema.columns import repeated_additions
from gold.writing.bad_values import Faults

_FIRST_BUILDS = (RebuildReason.NEW_TABLE, RebuildReason.FIRST_ROWS)


def notes_of(plan: Plan, faults: Faults, met: Collisions, *, begins_marks: bool) -> Iterator[str]:
    """The notes on a plan that was carried out.

    Args:
        plan: The plan.
        faults: The cells to list of the new changes; of all changes where the table was rebuilt or is
            unlisted.
        met: How many added rows met an existing one.
        begins_marks: Whether merges mark rows that are gone from now on.
    """
    if plan.rebuild is not None and plan.rebuild.reason not in _FIRST_BUILDS:
        yield f"rebuilt: {plan.rebuild}"
    ignored = ignored_keys(plan.task.settings.keys, plan.layout.keys)
    if ignored is not None:
        yield ignored
    if plan.task.state.is_unlisted:
        values = quantity(faults.count, "bad value is", "bad values are")
        yield f"{BAD_VALUES_TABLE} was gone: {values} listed again"
    if plan.task.missed:
        missed = quantity(plan.task.missed, "message")
        yield (
            f"without the {missed} that came while it was excluded: `mainstem rebuild TABLE --from bronze`"
            " reads them"
        )
    computed = _computed_later(plan)
    if computed:
        yield f"computed by the source, null in rows from before they were added: {_few(computed)}"
    converted = _converted(plan)
    if converted:
        yield f"existing values were converted by the source, and here they are as before: {_few(converted)}"
    if plan.left_out:
        number = quantity(len(plan.left_out), "column")
        yield f"schema_policy: ignore leaves {number} out of the replica: {_few(plan.left_out)}"
    for name in plan.task.unclaimed:
        yield (
            f"rows of {name} from before a rename gave it that name are in no table: if a snapshot without "
            f"positions brought them, raise `epoch` of source {plan.task.source} and load again"
        )
    if begins_marks:
        yield "large: its changed rows are now marked by deletion vectors, which readers must know"
    if met.total:
        yield str(met)
    if faults.others:
        others = quantity(faults.others, "bad value")
        yield f"{others} more than the {len(faults.cells):,} that ops/bad_values lists"
    unclear = plan.task.lineage.not_understood
    if unclear:
        yield f"{quantity(len(unclear), 'statement')} not applied, the last: {unclear[-1][1]}"


def _few(names: Sequence[str]) -> str:
    """The first names, and how many more there are."""
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if names[5:] else "")


def _computed_later(plan: Plan) -> list[str]:
    """The added columns of which older rows have values in the source that no statement tells.

    Those of new statements; those of all statements where the table was rebuilt.
    """
    task, first = plan.task, plan.profile.min_sequence
    repeated = repeated_additions(task.lineage)
    names = []
    for at, (sequence, action) in enumerate(task.lineage.column_changes):
        has_older_rows = first is not None and first < sequence
        if (
            isinstance(action, AddColumn)
            and action.has_expression_default
            and at not in repeated
            and _is_told(plan, sequence)
            and has_older_rows
        ):
            name = plan.namings[at + 1].current_name(action.name)
            names += [name] if name is not None else []
    return names


def _converted(plan: Plan) -> list[str]:
    """The columns whose older values the source converted, by new statements or in a rebuild."""
    found = converted_columns(plan.task, plan.profile, plan.namings)
    changes = plan.task.lineage.column_changes
    return list(dict.fromkeys(name for at, name in found if _is_told(plan, changes[at][0])))


def _is_told(plan: Plan, sequence: str) -> bool:
    """Whether people are told of a statement: it is new, or the table was rebuilt."""
    task = plan.task
    return plan.rebuild is not None or task.statement_batches.get(sequence, -1) > task.state.batch
