"""Describes changes of columns in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from framework.contracts.ddl_actions import (
    IF_EXISTS,
    Action,
    AddColumn,
    ChangeType,
    CreateTable,
    DropColumn,
    DropDatabase,
    DropTable,
    NoEffect,
    RenameColumn,
    RenameTable,
    SetComment,
    SetKeys,
    TruncateTable,
    Unsupported,
)
from framework.text.formatting import quantity

_MOST = 12


def describe_actions(actions: Sequence[Action]) -> str:
    """The effect of a statement in words; at most a dozen of its actions."""
    return _listed([_describe(action) for action in actions if action != IF_EXISTS]) or "no effect on columns"


def column_difference(former: Mapping[str, str], now: Mapping[str, str]) -> str:
    """How the columns of a replica (name → type, in order) differ from the former ones."""
    added = [f"column {name} {kind} added" for name, kind in now.items() if name not in former]
    gone = [f"column {name} gone" for name in former if name not in now]
    changed = [
        f"column {name}: {former[name]} → {kind}"
        for name, kind in now.items()
        if name in former and former[name] != kind
    ]
    return _listed([*added, *gone, *changed]) or "columns in another order"


def _listed(parts: Sequence[str]) -> str:
    more = f"; {len(parts) - _MOST} more" if len(parts) > _MOST else ""
    return "; ".join(parts[:_MOST]) + more


def _describe(action: Action) -> str:
    match action:
        case AddColumn():
            return f"column {action.name} {action.type or action.declared or ''} added".replace("  ", " ")
        case DropColumn():
            return f"column {action.name} dropped"
        case RenameColumn():
            return f"column {action.old} renamed {action.new}"
        case ChangeType():
            return f"column {action.name} is {action.type or action.declared or 'declared anew'}"
        case RenameTable():
            return f"table renamed {action.to.dotted}"
        case DropTable():
            return "table dropped"
        case DropDatabase():
            return "all tables of the database dropped"
        case CreateTable():
            return (
                f"table created with {quantity(len(action.columns), 'column')}"
                if action.columns
                else "table created"
            )
        case TruncateTable():
            return "truncated"
        case SetKeys():
            return f"key is {', '.join(action.keys)}" if action.keys else "key dropped"
        case SetComment():
            place = "table" if action.column is None else f"column {action.column}"
            return f"{place} has another comment"
        case NoEffect():
            return f"no effect: {action.reason}"
        case Unsupported():
            return f"not understood: {action.reason}"
