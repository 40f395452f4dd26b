"""The actions of one ALTER TABLE in an order in which they can be done one after the other.

Inside one statement the source takes all names as they were before it: `RENAME COLUMN a TO b, RENAME COLUMN b TO a`
swaps two columns, `ADD a int, DROP a` replaces one.
"""

from __future__ import annotations

from collections.abc import Sequence

from framework.contracts.actions import Action, AddColumn, ChangeType, DropColumn, RenameColumn, RenameTable, SetKeys

_SWAP = "_cdc_swap_"


def sequenced(actions: Sequence[Action]) -> tuple[Action, ...]:
    """The actions as written, but a new name of the table last, and columns' drops and renames first where names meet."""
    table = [a for a in actions if isinstance(a, RenameTable)]
    rest = [a for a in actions if not isinstance(a, RenameTable)]
    if _names_meet(rest):
        drops = [a for a in rest if isinstance(a, DropColumn)]
        renames = [a for a in rest if isinstance(a, RenameColumn)]
        others = [a for a in rest if not isinstance(a, DropColumn | RenameColumn)]
        rest = [*drops, *_chained(renames), *others]
    return (*rest, *table)


def _names_meet(actions: Sequence[Action]) -> bool:
    """Whether an action uses a name that a later one frees or makes."""
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


def _chained(renames: Sequence[RenameColumn]) -> list[RenameColumn]:
    """Renames so that each new name is free when its turn comes; a circle goes by way of a name of its own."""
    waiting, done, last = list(renames), list[RenameColumn](), list[RenameColumn]()
    while waiting:
        taken = {r.old.lower() for r in waiting}
        free = next((r for r in waiting if r.new.lower() not in taken or r.new.lower() == r.old.lower()), None)
        if free is not None:
            waiting.remove(free)
            done.append(free)
            continue
        first = waiting.pop(0)
        passing = f"{_SWAP}{len(last) + 1}_{first.old}"
        done.append(RenameColumn(first.old, passing))
        last.append(RenameColumn(passing, first.new))
    return [*done, *last]
