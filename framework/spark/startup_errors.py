"""Explains why Spark did not start."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from framework.errors import MainstemError

OLDEST_JAVA = 17


def spark_missing() -> MainstemError:
    """The error for a Python that has no Spark."""
    return MainstemError(
        "PYSPARK_MISSING",
        found="no Spark in this Python",
        where=sys.executable,
        action="install Mainstem with its extra `local` (in a clone: `uv tool install '.[local]'`);"
        " or run it where Spark is installed: Databricks and clusters bring their own",
    )


def find_java() -> str | None:
    """The Java that Spark would start, None where there is none."""
    home = os.environ.get("JAVA_HOME")
    if home:
        java = Path(home) / "bin" / "java"
        return str(java) if java.is_file() else None
    return shutil.which("java")


def java_version(java: str) -> int | None:
    """The feature release of a Java (17, 21), None when it does not say."""
    try:
        answer = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = re.search(r'version "(?:1\.)?(\d+)', answer.stderr + answer.stdout)
    return int(match[1]) if match else None


def start_failure(log: str) -> MainstemError:
    """The error for a session that did not start; `log` is what the JVM wrote."""
    java = find_java()
    if java is None:
        home = os.environ.get("JAVA_HOME")
        return MainstemError(
            "JAVA_NOT_FOUND",
            found=f"no bin/java below JAVA_HOME ({home})" if home else "no `java` on the path",
            where="this machine",
            action="install Java 17 or 21, and set JAVA_HOME to it; `mainstem doctor` checks it",
        )
    version = java_version(java)
    if version is None or version < OLDEST_JAVA:
        return MainstemError(
            "JAVA_TOO_OLD",
            found=f"Java {version or 'of an unknown version'}",
            where=java,
            action="install Java 17 or 21, and set JAVA_HOME to it; `mainstem doctor` checks it",
        )
    for pattern, condition, found, action in _KNOWN:
        if re.search(pattern, log):
            return MainstemError(condition, found=found, where="the start of Spark", action=action)
    return MainstemError(
        "SPARK_NOT_STARTED",
        found=_last_words(log),
        where="the start of Spark",
        action="run the command again with --debug, or `mainstem doctor`",
    )


_KNOWN = (
    (
        r"invalid null input: name|Invalid UID, could not determine effective user",
        "USER_WITHOUT_NAME",
        "the user of this process has no name, which Hadoop asks for",
        "run as a user that /etc/passwd has: in a container add `--volume /etc/passwd:/etc/passwd:ro`",
    ),
    (
        r"unresolved dependency|UNRESOLVED DEPENDENCIES|download failed|Server access error",
        "JARS_UNAVAILABLE",
        "Delta's JVM artifacts are not on this machine and could not be downloaded",
        "connect to the network (or set spark.jars.ivySettings for a mirror) for the first start; "
        "later starts need none",
    ),
    (
        r"BindException|Can't assign requested address|Address already in use",
        "PORT_UNAVAILABLE",
        "Spark could not open a port on 127.0.0.1",
        "free some ports, or stop other Spark processes",
    ),
    (
        r"Could not reserve enough space|OutOfMemoryError|Cannot allocate memory|insufficient memory"
        r"|Invalid maximum heap",
        "MEMORY_UNAVAILABLE",
        "not enough memory for Spark's driver",
        "free some memory, or set MAINSTEM_DRIVER_MEMORY, for instance to 1g",
    ),
    (
        r"No space left on device",
        "DISK_FULL",
        "no space left on the disk",
        "free some space in the temporary folder, or set TMPDIR to another",
    ),
)


def _last_words(log: str) -> str:
    """The last line of the log that is no frame of a stack trace."""
    lines = [
        line.strip() for line in log.splitlines() if line.strip() and not line.startswith(("\tat ", "\t..."))
    ]
    return lines[-1][:300] if lines else "Spark's JVM ended without a word"
