"""`python -m mainstem COMMAND`: the command line."""

from __future__ import annotations

import sys

from framework.cli import main

sys.exit(main())
