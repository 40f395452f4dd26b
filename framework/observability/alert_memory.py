"""What each receiver of alerts has been told, so that a problem is told once, and its end.

It is a small file beside the checkpoints. Without it, problems are told again: its loss hides none. A
receiver is known by a slow hash of its entry in the configuration, for its address is a secret; neither the
address nor the text of a problem is kept.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field

from framework.config.alerts import Alert, Topic
from framework.observability.alert_message import Problem

AGAIN_AFTER = 24 * 3600.0
"""The seconds after which a receiver is told again of messages in quarantine."""
_FORM = 2
_ROUNDS = 100_000


@dataclass(frozen=True, slots=True)
class Told:
    """A problem that a receiver was told; the names are those of `Problem`."""

    kind: str
    name: str
    layer: str | None = None


@dataclass(slots=True)
class Receiver:
    """What one receiver knows.

    Attributes:
        told: The problems that it was told and that stand, by identity.
        quarantined: How many messages have come into quarantine since it was told of any.
        quarantine_told: When it was told of messages in quarantine, in seconds since 1970.
    """

    told: dict[str, Told] = field(default_factory=dict)
    quarantined: int = 0
    quarantine_told: float = 0.0

    def news(self, problems: Iterable[Problem]) -> list[Problem]:
        """Those of the problems that it was not told."""
        return [problem for problem in problems if problem.identity not in self.told]

    def over(self, problems: Iterable[Problem], layers: Container[str | None]) -> dict[str, Told]:
        """What it was told of these layers and is none of the problems."""
        standing = {problem.identity for problem in problems}
        return {
            identity: told
            for identity, told in self.told.items()
            if told.layer in layers and identity not in standing
        }

    def note(self, problems: Iterable[Problem], over: Container[str]) -> None:
        """It knows of these problems now, and that those with the identities `over` are over."""
        kept = {identity: told for identity, told in self.told.items() if identity not in over}
        self.told = kept | {one.identity: Told(str(one.kind), one.name, one.layer) for one in problems}

    def forget(self, topic: Topic) -> None:
        """Forget what it was told of a topic that nobody looks at any more."""
        self.told = {key: told for key, told in self.told.items() if told.kind != topic}

    def is_due(self, now: float) -> bool:
        """Whether it should be told of messages in quarantine."""
        return self.quarantined > 0 and not 0 <= now - self.quarantine_told < AGAIN_AFTER


@dataclass(slots=True)
class AlertMemory:
    """What all receivers know; `salt` goes into the hashes of their addresses."""

    salt: str = field(default_factory=lambda: secrets.token_hex(16))
    receivers: dict[str, Receiver] = field(default_factory=dict)

    def receiver(self, alert: Alert) -> Receiver:
        """What a receiver knows; nothing for a new one, and for one whose entry has changed."""
        entry = repr((alert.address, alert.style, sorted(alert.about))).encode()
        slow = hashlib.pbkdf2_hmac("sha256", entry, bytes.fromhex(self.salt), _ROUNDS)
        return self.receivers.setdefault(slow.hex()[:32], Receiver())

    def keep(self, receivers: Sequence[Receiver]) -> None:
        """Forget all other receivers: what they knew would be outdated when they come back."""
        same = {id(one) for one in receivers}
        self.receivers = {key: one for key, one in self.receivers.items() if id(one) in same}

    @property
    def is_empty(self) -> bool:
        """Whether no receiver knows of anything."""
        return all(one == Receiver() for one in self.receivers.values())

    def text(self) -> str:
        """The text of the file; receivers that know nothing are left out."""
        kept = {key: asdict(one) for key, one in self.receivers.items() if one != Receiver()}
        said = {"form": _FORM, "salt": self.salt, "receivers": kept}
        return json.dumps(said, ensure_ascii=False, sort_keys=True)


def memory_of(text: str | None) -> AlertMemory:
    """The memory from the text of its file; an empty one where there is none, or it cannot be read."""
    try:
        said = json.loads(text or "{}")
        if said.get("form") != _FORM:
            return AlertMemory()
        bytes.fromhex(said["salt"])
        return AlertMemory(said["salt"], {key: _receiver(one) for key, one in said["receivers"].items()})
    except (ValueError, KeyError, TypeError, AttributeError):
        return AlertMemory()


def _receiver(said: Mapping[str, object]) -> Receiver:
    told, count, moment = said["told"], said["quarantined"], said["quarantine_told"]
    if not isinstance(told, dict) or not isinstance(count, int) or not isinstance(moment, int | float):
        raise TypeError("another form")
    known = {str(key): Told(Topic(one["kind"]), one["name"], one["layer"]) for key, one in told.items()}
    return Receiver(known, count, float(moment))
