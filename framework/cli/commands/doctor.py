"""`mainstem doctor`: checks whether this machine can run a pipeline, and says what to do where it cannot."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import SparkSession

from framework.cli.options import CONFIG, Options
from framework.cli.terminal import say_json, say_line
from framework.config.model import Config
from framework.errors import MainstemError, brief
from framework.lakehouse.live_checks import LiveCheck, live_checks
from framework.lakehouse.rights import Right, needed_rights
from framework.pipeline.session import read_config
from framework.spark.jars import known_jars, packages
from framework.spark.machine_memory import machine_memory
from framework.spark.session import close_session, open_session
from framework.spark.startup_errors import OLDEST_JAVA, find_java, java_version

GIGABYTE = 1_000_000_000
LEAST_DISK = GIGABYTE
LEAST_MEMORY = 3 * GIGABYTE
_SOMEBODY = "the application id of the service principal"


@dataclass(frozen=True, slots=True)
class Finding:
    """The outcome of one check of the machine. `action` is empty when nothing needs to be done."""

    name: str
    ok: bool
    found: str
    action: str = ""


def run(options: Options) -> int:
    """Check this machine and print the findings; returns 1 when something is missing.

    With `databricks` or `live`: list the rights that the pipeline needs in Unity Catalog, and in a workspace
    try them.
    """
    if options.databricks or options.live:
        return _databricks(read_config(options.config), options)
    is_absent = options.config == CONFIG and not Path(CONFIG).exists()  # a machine may have no pipeline yet
    root = None if is_absent else read_config(options.config).root
    return _told(diagnose(root), {}, is_json=options.json)


def _told(findings: Sequence[Finding], more: Mapping[str, object], *, is_json: bool) -> int:
    """Print findings; returns 1 where one is not ok. `more` is only for JSON."""
    if is_json:
        found = [{"name": f.name, "ok": f.ok, "found": f.found, "action": f.action} for f in findings]
        say_json({"findings": found, **more})
    else:
        for finding in findings:
            say_line(f"{'ok  ' if finding.ok else 'FAIL'}  {finding.name:<22} {finding.found}")
            if not finding.ok:
                say_line(f"      do: {finding.action}")
    return 0 if all(f.ok for f in findings) else 1


def _databricks(config: Config, options: Options) -> int:
    rights = needed_rights(config)
    if "DATABRICKS_RUNTIME_VERSION" not in os.environ:
        grants = [right.grant(_SOMEBODY) for right in rights]
        if options.live:
            raise MainstemError(
                "NO_WORKSPACE",
                found="this is no compute of Databricks",
                where="doctor --live",
                action="run it in a notebook or as a task of a job",
            )
        if options.json:
            say_json({"findings": [], "grants": grants})
        else:
            say_line("The rights that the pipeline needs. They are tried where this runs in a workspace.")
            for right, grant in zip(rights, grants, strict=True):
                say_line(f"{grant};  -- {right.purpose}")
        return 0
    spark = open_session(config)
    try:
        findings = examine(spark, rights, live_checks(config) if options.live else ())
    finally:
        close_session(spark)
    return _told(findings, {"grants": [right.grant(_SOMEBODY) for right in rights]}, is_json=options.json)


def examine(spark: SparkSession, rights: Iterable[Right], checks: Iterable[LiveCheck] = ()) -> list[Finding]:
    """Try rights, and checks that only a workspace can answer.

    A right that is missing is told with its GRANT; one that cannot be tried is told as not tried.
    """
    row = spark.sql("SELECT current_user()").first()
    principal = str(row[0]) if row else _SOMEBODY
    findings = []
    for right in rights:
        named = f"{', '.join(right.privileges)} on {right.securable}"
        if right.probe is None:
            findings.append(Finding("right", True, f"{named}: not tried, for {right.purpose}"))
            continue
        try:
            right.probe(spark)
        except Exception as error:  # the JVM has many kinds, and the other rights are to be tried
            findings.append(Finding("right", False, f"{named}: {brief(error)}", right.grant(principal)))
        else:
            findings.append(Finding("right", True, named))
    for check in checks:
        try:
            findings.append(Finding(check.name, True, check.run(spark)))
        except Exception as error:  # as above
            findings.append(Finding(check.name, False, brief(error), check.action))
    return findings


def diagnose(root: str | None = None, *, start_spark: Callable[[], object] | None = None) -> list[Finding]:
    """Returns all findings about this machine, and about the lakehouse at `root` if one is given.

    `start_spark` opens a session: pass it to test what the other findings only make likely. It may download
    Delta's JVM artifacts.
    """
    findings = [
        _python(),
        _java(),
        _jars(),
        _memory(),
        _disk("temporary folder", Path(tempfile.gettempdir())),
    ]
    if root is not None and "://" not in root:
        folder = _existing(Path(root))
        findings += [_disk("lakehouse disk", folder), _writable(Path(root), folder)]
    if start_spark is not None:
        findings.append(_spark(start_spark))
    return findings


def _python() -> Finding:
    version = ".".join(str(part) for part in sys.version_info[:3])
    ok = (3, 11) <= sys.version_info[:2] < (3, 13)
    return Finding("python", ok, f"{version} at {sys.executable}", "" if ok else "use Python 3.11 or 3.12")


def _java() -> Finding:
    java = find_java()
    advice = f"install Java {OLDEST_JAVA} or 21, and set JAVA_HOME to it"
    if java is None:
        home = os.environ.get("JAVA_HOME")
        return Finding(
            "java",
            False,
            f"no bin/java below JAVA_HOME ({home})" if home else "no `java` on the path",
            advice,
        )
    version = java_version(java)
    ok = version is not None and version >= OLDEST_JAVA
    return Finding("java", ok, f"{version or 'unknown version'} at {java}", "" if ok else advice)


def _jars() -> Finding:
    jars = known_jars(packages(kafka=False))
    if jars is not None:
        return Finding("delta jars", True, f"{len(jars)} on this machine")
    return Finding(
        "delta jars",
        True,
        "not looked up yet",
        "nothing: the first start finds or downloads them, and needs the network for that",
    )


def _memory() -> Finding:
    size = machine_memory()
    ok = size >= LEAST_MEMORY
    action = "" if ok else "use a machine with 4 GB, or set MAINSTEM_DRIVER_MEMORY to 1g for small feeds"
    return Finding("memory", ok, f"{size / GIGABYTE:.1f} GB", action)


def _disk(name: str, folder: Path) -> Finding:
    free = shutil.disk_usage(folder).free
    ok = free >= LEAST_DISK
    return Finding(
        name, ok, f"{free / GIGABYTE:.1f} GB free at {folder}", "" if ok else "free some space, 1 GB at least"
    )


def _writable(root: Path, folder: Path) -> Finding:
    ok = folder.is_dir() and os.access(folder, os.W_OK | os.X_OK)
    found = f"{folder} is {'writable' if ok else 'not writable'}"
    return Finding(
        "lakehouse folder", ok, found, "" if ok else f"give this user the right to write to {root}"
    )


def _existing(folder: Path) -> Path:
    return next(path for path in (folder, *folder.parents) if path.exists())


def _spark(start_spark: Callable[[], object]) -> Finding:
    try:
        start_spark()
    except MainstemError as error:
        return Finding("spark", False, f"{error.condition}: {error.found}", error.action)
    return Finding("spark", True, "a session starts")
