"""In which of several modes a connector writes values: what its setting and its values leave open.

Some settings of a connector decide how it writes values, and no message says how they are set. Each value is
compatible with some of the modes: `9.90` can only be a decimal as text, `1234` can be text or base64. The
modes that are compatible with all values of a source are left open for the source:

    setting      values                        left open
    none         none seen                     every mode
    none         seen                          the modes common to all; nothing where there are none
    mode         leave it open, or none seen   the mode
    mode         contradict it                 nothing
    mode         contradict each other         the mode, if some of them are written in it

A value that means the same in all modes that are left open is decoded. Any other value waits.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

Modes = frozenset[str]


@dataclass(frozen=True, slots=True)
class ModeState:
    """What is known of one kind of values: the open modes, and the sets of modes seen so far."""

    left: Modes
    seen: frozenset[Modes] = frozenset()

    def is_news(self, modes: Modes) -> bool:
        """Whether a value that fits only these modes shows something new.

        It shows nothing where an earlier value fitted the same modes or fewer.
        """
        return not any(known <= modes for known in self.seen)


def state_of(every: Iterable[str], setting: str | None, seen: Iterable[Modes]) -> ModeState:
    """The modes that a setting and the values seen leave open; the table above shows each case."""
    found = frozenset(seen)
    common = frozenset(every).intersection(*found)
    if setting is None:
        return ModeState(common, found)
    is_open = setting in common or (not common and any(setting in modes for modes in found))
    return ModeState(frozenset({setting}) if is_open else frozenset(), found)


def evidence_text(kind: str, modes: Modes) -> str:
    """The modes that a value is compatible with, as text: `decimals=base64,text`."""
    return f"{kind}={','.join(sorted(modes))}"


def evidence_of(text: str) -> tuple[str, Modes]:
    """The kind and the modes of a text that `evidence_text` wrote."""
    kind, _, modes = text.partition("=")
    return kind, frozenset(modes.split(","))


def fault_detail(kind: str, fault: str) -> str:
    """The `detail` of a message whose values of this kind cannot be read: `decimals: column 'price' …`."""
    return f"{kind}: {fault}"


def kind_of_fault(detail: str) -> str:
    """The kind in a text that `fault_detail` wrote."""
    return detail.partition(":")[0]


def fingerprint(states: Mapping[str, ModeState]) -> str:
    """The open modes of all kinds as one text. When it changes, messages that waited are decoded again."""
    return ";".join(evidence_text(kind, states[kind].left) for kind in sorted(states))
