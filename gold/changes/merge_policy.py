"""How a replica treats deletes, truncates and partial images."""

from __future__ import annotations

from dataclasses import dataclass

from framework.config.tables import Deletes


@dataclass(frozen=True, slots=True)
class MergePolicy:
    """How changes become rows of a replica.

    Attributes:
        deletes: What a delete does to its row.
        truncated_at: The position of the newest truncate that counts; None where there is none.
        has_partials: Whether images leave columns out.
        is_emptied: The replica no longer holds rows from before that truncate.
        is_newest: That truncate comes after all applied changes.
    """

    deletes: Deletes
    truncated_at: str | None
    has_partials: bool
    is_emptied: bool = False
    is_newest: bool = False
