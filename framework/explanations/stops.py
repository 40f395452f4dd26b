"""Explanations of the reasons for which a source has stopped with SOURCE_RESET."""

from __future__ import annotations

from framework.explanations.explanation import Explanation

_RAISE = "Raise `epoch` of the source by one and run again: what has waited is processed."
_AGAIN = (
    "Leave `epoch`: a raised one would let old values win. The tables have to be built again in the order of "
    "the topics; SOURCE_RESET in `mainstem status` has the steps. See Begin again in Operations."
)

EXPLANATIONS = (
    Explanation(
        "follows",
        "A partition waits because another one of its source has stopped.",
        "Its messages are later than the sign that the other partition shows.",
        "Do what the reason of the other partition needs; this one then goes on.",
        "Do: `mainstem status`.",
    ),
    Explanation(
        "offsets_restarted",
        "Offsets of a topic have landed again with other messages.",
        "The topic was deleted and created again.",
        f"{_RAISE}",
        "Write: `epoch: 2` below `sources.orders`.",
    ),
    Explanation(
        "older_topic",
        "Messages have the offsets of others that landed before, and are older than those.",
        "They are of a topic that was deleted before the one that landed first.",
        _AGAIN,
        "Found: a dump of the former topic that landed behind one of the present topic.",
    ),
    Explanation(
        "position_below",
        "A transaction has a lower position than changes before it, and no other one follows that tells why.",
        "A transaction was open for long, or the positions of the source start again.",
        "Wait: a run continues by itself when the next transaction has landed. Only if the positions start "
        "again, raise `epoch` of the source by one.",
        "Do: `mainstem run` when more messages have landed.",
    ),
    Explanation(
        "position_restarted",
        "A change has a lower position than one before it, although it happened later.",
        "The feed comes from a restored backup, or from a log that was reset; or a clock was wrong.",
        f"{_RAISE} If the positions did not start again, that is the only way on, too: compare the tables "
        "with the source afterwards, and seed what is wrong.",
        "Write: `epoch: 2` below `sources.orders`.",
    ),
    Explanation(
        "server_changed",
        "Another server writes the feed, so that its positions cannot be compared with those before.",
        "The database moved, or another server took over.",
        f"Check that the feed of the old server is complete. {_RAISE}",
        "Write: `epoch: 2` below `sources.orders`.",
    ),
    Explanation(
        "unknown_topic",
        "Neither offset nor time tells whether messages are of a topic or of the former one of its name.",
        "The topic was created again, and messages between the two landed late.",
        _AGAIN,
        "Do: `mainstem status`.",
    ),
)
"""In the order of the alphabet."""
