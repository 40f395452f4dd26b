"""Mainstem from Python: notebooks, tests and schedulers call these functions. `docs/python.md` shows how.

Everything in `__all__` is public: names, parameters and results change only with a major version, and the
changelog says so. Everything else, in this package and in the others, may change in any release.

Wherever a function takes a configuration, it takes the path of the file as well. Functions raise
`MainstemError` for what a user can act on, `ConfigurationError` among them; any other exception is a bug or
comes from the platform. Importing this package imports no Spark.
"""

from __future__ import annotations

from importlib.metadata import version

from framework.config.model import Config
from framework.contracts.events import Control, RowChange
from framework.errors import ConfigurationError, MainstemError
from mainstem.messages import DecodedMessage, Message, decode, decode_for_source, formats, load_config
from mainstem.pipelines import RunResult, detect, plan, query, report, run, status, verify

__all__ = [
    # without Spark
    "load_config",
    "formats",
    "decode",
    "decode_for_source",
    # a feed
    "detect",
    # a pipeline
    "plan",
    "run",
    "status",
    "verify",
    "query",
    "report",
    # what they take, return and raise
    "Config",
    "Message",
    "DecodedMessage",
    "RowChange",
    "Control",
    "RunResult",
    "MainstemError",
    "ConfigurationError",
    "__version__",
]

__version__ = version("mainstem")
