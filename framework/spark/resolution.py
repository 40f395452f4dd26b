"""Finds the JVM artifacts of a session and compares them with their hashes before a JVM can run them.

Ivy finds them the first time: `spark-submit` starts a JVM that resolves the artifacts and then runs a program
of Spark's own that prints its version, so that no class of the artifacts is loaded. Later starts use the
paths that were found.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import unquote, urlsplit

from framework.errors import MainstemError
from framework.spark.jars import (
    Resolution,
    check_jars,
    known_jars,
    one_at_a_time,
    remember_jars,
    resolutions,
    write_ivy_settings,
)
from framework.spark.startup_errors import start_failure

_JARS = re.compile(r"^\(spark\.jars,(.*)\)$", re.MULTILINE)
_HARMLESS = ("--class", "org.apache.ivy.Main", "spark-internal", "-version")
"""The program that runs after the artifacts were found: Ivy, which Spark has itself."""
HIDDEN_KEYS = r"^spark\.[\w.-]*(?i:secret|password|token|access[.]?key)"
"""The settings that Spark hides in what it prints, by their keys.

By default it looks at values, too, and hides the paths of all artifacts because of Kafka's token provider.
"""


def verified_jars(*, kafka: bool, debug: bool = False) -> tuple[str, ...]:
    """The paths of the artifacts; each that has a recorded hash is the published one.

    Raises:
        MainstemError: JARS_CHANGED where an artifact is another one; JARS_UNAVAILABLE where one is neither on
            this machine nor in reach; and those of a JVM that does not start.
    """
    ways = resolutions(kafka=kafka)
    jars = _known(ways)
    if jars is None:
        with one_at_a_time():
            jars = _known(ways) or _resolved(ways, debug)
    return jars


def _known(ways: Sequence[Resolution]) -> tuple[str, ...] | None:
    jars = next((jars for way in ways if (jars := known_jars(way.coordinates))), None)
    if jars is not None:
        check_jars(jars)
    return jars


def _resolved(ways: Sequence[Resolution], debug: bool) -> tuple[str, ...]:
    """The artifacts as Ivy finds them; their paths are recorded once they are verified."""
    for way in ways:
        try:
            jars = _resolve(way, debug)
            break
        except MainstemError as error:
            if error.condition != "JARS_UNAVAILABLE" or way is ways[-1]:
                raise
    check_jars(jars)
    remember_jars(way.coordinates, jars)
    return jars


def _resolve(way: Resolution, debug: bool) -> tuple[str, ...]:
    write_ivy_settings(way.settings)
    settings = {
        **way.settings,
        "spark.jars.packages": ",".join(way.coordinates),
        "spark.driver.extraJavaOptions": os.environ.get("MAINSTEM_JAVA_OPTIONS", ""),
        "spark.redaction.regex": HIDDEN_KEYS,
    }
    conf = [part for key, value in settings.items() for part in ("--conf", f"{key}={value}")]
    submit = str(_spark_home() / "bin" / "spark-submit")
    environment = {key: value for key, value in os.environ.items() if key != "SPARK_REMOTE"}
    ran = subprocess.run(
        [submit, "--verbose", "--master", "local[1]", *conf, *_HARMLESS],
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        check=False,
    )
    if debug:
        sys.stderr.write(ran.stdout)
    found = _JARS.search(ran.stdout)
    if ran.returncode or found is None:
        raise start_failure(ran.stdout)
    return tuple(_local_path(jar) for jar in found[1].split(",") if jar)


def _spark_home() -> Path:
    """The folder of Spark: SPARK_HOME, else that of the Python package."""
    chosen, package = os.environ.get("SPARK_HOME"), find_spec("pyspark")
    if chosen or package is None or package.origin is None:
        return Path(chosen or ".")
    return Path(package.origin).parent


def _local_path(jar: str) -> str:
    return unquote(urlsplit(jar).path) if jar.startswith("file:") else jar
