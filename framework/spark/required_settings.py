"""The settings of a session that results depend on, whoever has started it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from framework.errors import MainstemError

SUBSTITUTES = "spark.sql.variable.substitute"
"""The setting with which Spark replaces `${…}` in a statement by values of the environment or the JVM."""
REQUIRED = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "true",
    # else Spark leaves out files that it cannot read, and their rows are missing without an error
    "spark.sql.files.ignoreCorruptFiles": "false",
    "spark.sql.files.ignoreMissingFiles": "false",
    "spark.sql.timestampType": "TIMESTAMP_LTZ",
    "spark.sql.parser.escapedStringLiterals": "false",
    SUBSTITUTES: "false",  # secrets depend on it
}
_ALWAYS_SETTABLE = ("spark.sql.session.timeZone", "spark.sql.ansi.enabled")

EVERY_FILE = {"ignoreCorruptFiles": "false", "ignoreMissingFiles": "false"}
"""Options of Spark's readers of files: a file that cannot be read is an error, whatever the session says."""


def require_settings(session: SparkSession) -> dict[str, str | None]:
    """Gives a session the settings that results depend on; a new one has those of its cluster, too.

    Returns what it has changed, with the former values. Serverless compute keeps most of the settings to
    itself, and has them as they must be. Where a platform does not allow to stop the substitution, gold
    refuses names that it would change (`refuse_references`).
    """
    former: dict[str, str | None] = {}
    for key, value in REQUIRED.items():
        with contextlib.suppress(*(() if key in _ALWAYS_SETTABLE else (PySparkException,))):
            before = session.conf.get(key, None)
            if before != value:
                session.conf.set(key, value)
                former[key] = before
    return former


def refuse_references(session: SparkSession, names: Iterable[str]) -> None:
    """Raises MainstemError for a name with `${` where the session would replace it in a statement."""
    name = next((name for name in names if "${" in name), None)
    if name is not None and _substitutes(session):
        raise MainstemError(
            "NAME_SUBSTITUTED",
            found=f"the name {name[:100]!r}, which this session's SQL replaces",
            where=f"the Spark session: {SUBSTITUTES}",
            action=f"set `{SUBSTITUTES}` to false for the cluster or the session, and run again",
        )


def _substitutes(session: SparkSession) -> bool:
    """Whether Spark replaces `${…}` in SQL text. A query shows it: the setting itself may be unreadable."""
    row = session.sql(f"SELECT length('${{{SUBSTITUTES}}}')").first()
    return row is None or row[0] != len(SUBSTITUTES) + 3
