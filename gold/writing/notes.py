"""What people are told of a table that was brought up to date, beside its numbers."""

from __future__ import annotations

from collections.abc import Iterator

from framework.contracts.table_names import BAD_VALUES_TABLE
from framework.text.formatting import quantity
from gold.planning.keys import ignored_keys
from gold.planning.plan import Plan
from gold.planning.rebuild import RebuildReason
from gold.planning.table_state import Collisions
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
        yield f"without the {quantity(plan.task.missed, 'message')} that came while it was excluded"
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
