"""The numbers of silver's batches."""

from __future__ import annotations

BATCH_ID_STEP = 1_000
"""The distance between batches of the stream. Messages that are decoded again get numbers in between."""
