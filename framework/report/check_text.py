"""Says quality checks in sentences: what must hold, what was found, and which rows break it. Pure."""

from __future__ import annotations

import re

from framework.contracts.quality import QualityResult
from framework.text.formatting import noun_for
from framework.text.positions import place_text, with_positions_as_text

_CLAIMS = {
    "types": "every column has the type that was applied",
    "bad_values": "every cell fits the type of its column",
    "inserts_met": "no insert and no row of a snapshot meets a different row that is there",
    "implied_keys": "the replica has the keys that the changes lead to, and no others",
    "applied": "the changes are applied to the replica",
    "gate": "the changes are applied to the replica",
    "traceable": "every outcome belongs to a message",
    "quarantined": "no message is in quarantine",
    "positions": "the positions of the source go on",
    "offset_gaps": "the offsets have no gaps",
    "transactions": "every transaction is complete",
    "waiting": "halves of updates find their other halves",
    "snapshot": "the replica equals the snapshot of the source",
    "judged": "the checks can be judged",
}
_NAMED_CLAIMS = {
    "every_message_has_a_fate": "every message has an outcome",
    "every_message_once": "every message landed once",
}
_MESSAGE_KINDS = frozenset({"quarantined", "accounted", "traceable"})
_SHARE = re.compile(r"([0-9,]+) of ([0-9,]+ (?:new )?rows?)")
_PLACE = re.compile(r"(?P<topic>.+)/(?P<partition>[0-9]+)/(?P<offset>[0-9]+)(?P<more>: \w+)?", re.DOTALL)


def claim(check: QualityResult) -> str:
    """What the rule of a check says, as a clause: `id is never null`."""
    names, one = _listed(check.columns), len(check.columns) == 1
    expected = check.expected
    match check.kind:
        case "not_null" if names:
            return f"{names} {'is' if one else 'are'} never null"
        case "unique" if names:
            return f"no two rows have the same {names}"
        case "range" | "accepted" | "relationship" if names:
            rest = expected.removeprefix(f"{', '.join(check.columns)} ")
            return expected if rest == expected else f"{names} {'is' if one else 'are'} {rest}"
        case "length" if names:
            rest = expected.removeprefix(f"length of {', '.join(check.columns)} ")
            return expected if rest == expected else f"the length of {names} is {rest}"
        case "sql":
            return f"every row satisfies {expected}"
        case "freshness" if expected.startswith("newest event at most "):
            return f"the newest event is {expected.removeprefix('newest event ')}"
    return _NAMED_CLAIMS.get(check.rule) or _CLAIMS.get(check.kind) or expected


def outcome(check: QualityResult, format_name: str = "") -> str:
    """What a check found, in words: `2 of 2,011 rows break it`, `3 rows checked`.

    Args:
        check: The check.
        format_name: The format of its source, which says what the numbers of a position are.
    """
    share = _SHARE.fullmatch(check.observed)
    if share is not None and check.success is not None:
        if share[1] == "0":
            return f"{share[2]} checked"
        return f"{check.observed} {noun_for(check.failed_count, 'breaks', 'break')} it"
    if check.kind == "bad_values" and check.observed == "none":
        return "no bad value"
    return with_positions_as_text(check.observed, format_name)


def failing_key(check: QualityResult, key: str) -> str:
    """One of the failing keys; that of a message as its place: `orders, partition 2, offset 8`."""
    found = _PLACE.fullmatch(key) if check.kind in _MESSAGE_KINDS else None
    if found is None:
        return key
    return place_text(found["topic"], int(found["partition"]), int(found["offset"])) + (found["more"] or "")


def _listed(names: tuple[str, ...]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)
