"""What a rule came to."""

from __future__ import annotations

from dataclasses import dataclass

from framework.quality.rules import Rule


@dataclass(frozen=True, slots=True)
class Finding:
    """What a rule came to, measured. `failed` counts what breaks it; `is_judged` is false where that could not be told."""

    rule: Rule
    checked: int
    failed: int
    keys: tuple[str, ...] = ()
    observed: str = ""
    detail: str | None = None
    is_judged: bool = True
