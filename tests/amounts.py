"""How much the tests with drawn input draw."""

from __future__ import annotations

import os

IS_LARGE = bool(os.environ.get("MAINSTEM_SIZE"))
"""Whether the tests draw all that they can, as `make property` asks; else a part that takes seconds."""
