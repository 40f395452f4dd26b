"""The actions of one ALTER TABLE in an order in which they can be executed one after the other.

Inside one statement the source resolves all names as they were before the statement:
`RENAME COLUMN a TO b, RENAME COLUMN b TO a` swaps two columns, `ADD a int, DROP a` replaces one.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable, Sequence

from framework.contracts.ddl_actions import (
    Action,
    AddColumn,
    ChangeType,
    DropColumn,
    RenameColumn,
    RenameTable,
    SetKeys,
)

_SWAP = "_cdc_swap_"


def executable_order(actions: Sequence[Action]) -> tuple[Action, ...]:
    """The actions in executable order: a table rename last; on conflict drops and renames first."""
    table = [a for a in actions if isinstance(a, RenameTable)]
    rest = [a for a in actions if not isinstance(a, RenameTable)]
    if _names_conflict(rest):
        drops = [a for a in rest if isinstance(a, DropColumn)]
        renames = [a for a in rest if isinstance(a, RenameColumn)]
        others = [a for a in rest if not isinstance(a, DropColumn | RenameColumn)]
        rest = [*drops, *_rename_order(renames), *others]
    return (*rest, *table)


def without_existing(actions: Sequence[Action], optional: Iterable[Action]) -> list[Action]:
    """The actions without the columns that are added only if they do not exist, and exist before.

    MariaDB looks for them before it executes the statement: `DROP a, ADD COLUMN IF NOT EXISTS a int` only
    drops `a`. The actions of such clauses are `optional`; a key of the column goes with it.
    """
    left_out = {id(action) for action in optional}
    dropped = {a.name.lower() for a in actions if isinstance(a, DropColumn)}
    existing = dropped | {a.old.lower() for a in actions if isinstance(a, RenameColumn)}
    return [a for a in actions if not (id(a) in left_out and _added_names(a) & existing)]


def _added_names(action: Action) -> set[str]:
    """The column that an action adds, or makes the key."""
    match action:
        case AddColumn(name):
            return {name.lower()}
        case SetKeys(keys):
            return {name.lower() for name in keys}
    return set()


def _names_conflict(actions: Sequence[Action]) -> bool:
    """Whether an action uses a name that a later action frees or creates."""
    used: set[str] = set()
    for action in actions:
        match action:
            case DropColumn(name):
                if name.lower() in used:
                    return True
            case RenameColumn(old, new):
                if old.lower() != new.lower() and (old.lower() in used or new.lower() in used):
                    return True
                used.add(new.lower())
            case AddColumn() | ChangeType():
                used.add(action.name.lower())
                if action.after is not None:
                    used.add(action.after.lower())
            case SetKeys(keys):
                used.update(key.lower() for key in keys)
            case _:
                pass
    return False


def _rename_order(renames: Sequence[RenameColumn]) -> list[RenameColumn]:
    """The renames in an order in which each new name is free; a cycle uses a temporary name."""
    done, last = list[RenameColumn](), list[RenameColumn]()
    waiting = dict(enumerate(renames))
    taken = Counter(rename.old.lower() for rename in renames)
    wanted: dict[str, list[int]] = {}
    for place, rename in waiting.items():
        wanted.setdefault(rename.new.lower(), []).append(place)
    free = [
        place for place, r in waiting.items() if r.new.lower() not in taken or r.new.lower() == r.old.lower()
    ]
    while waiting:
        is_free = bool(free)
        place = heapq.heappop(free) if is_free else next(iter(waiting))
        if place not in waiting:
            continue
        rename = waiting.pop(place)
        if is_free:
            done.append(rename)
        else:
            passing = f"{_SWAP}{len(last) + 1}_{rename.old}"
            done.append(RenameColumn(rename.old, passing))
            last.append(RenameColumn(passing, rename.new))
        taken[rename.old.lower()] -= 1
        if not taken[rename.old.lower()]:
            for other in wanted.get(rename.old.lower(), ()):
                heapq.heappush(free, other)
    return [*done, *last]
