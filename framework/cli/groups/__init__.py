"""The declarations of all commands, a module for each group of the help."""

from framework.cli.groups import start  # isort: skip - the order of the help
from framework.cli.groups import run  # isort: skip
from framework.cli.groups import look  # isort: skip
from framework.cli.groups import repair, upkeep  # isort: skip

__all__ = ["look", "repair", "run", "start", "upkeep"]
