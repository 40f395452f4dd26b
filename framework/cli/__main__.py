"""`python -m framework.cli COMMAND`."""

from __future__ import annotations

import sys

from framework.cli import main

sys.exit(main())
