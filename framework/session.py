"""The Spark session: a cluster's own where there is one, else a local one that starts quietly and fails in plain words."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol, cast
from urllib.parse import unquote, urlsplit

import pyspark
from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

from framework import class_archive
from framework.errors import MainstemError
from framework.jars import Resolution, known_jars, one_at_a_time, remember_jars, resolutions, write_ivy_settings
from framework.pace import set_pace
from framework.session_errors import start_failure

# What must hold wherever a pipeline runs: results depend on these two.
REQUIRED = {"spark.sql.session.timeZone": "UTC", "spark.sql.ansi.enabled": "true"}

_OURS = "spark.mainstem.started"
_WORKERS = "mainstem_workers"

# PySpark's own loggers write each failed query, values and Java frames included, to standard error.
_TALKATIVE = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")


class Named(Protocol):
    """Anything with the name of a pipeline."""

    @property
    def pipeline(self) -> str:
        """The pipeline's name."""


def open_session(config: Named, *, kafka: bool = False, debug: bool = False) -> SparkSession:
    """A session with Delta, in UTC and with ANSI arithmetic; raises MainstemError when Spark cannot start.

    A session that is already active is used as it is, as on Databricks. SPARK_REMOTE is respected, `local[2]` as well, which
    starts a Spark Connect server on this machine; MAINSTEM_MASTER replaces `local[*]`, MAINSTEM_DRIVER_MEMORY the 2 GB of
    the driver, and MAINSTEM_JAVA_OPTIONS adds to its options. Without `debug` what the JVM writes to its standard error goes
    to a temporary file. Kafka's connector is loaded with `kafka`, or where the configuration has a Kafka source.
    """
    _keep_utc()
    active = SparkSession.getActiveSession()
    is_given = "DATABRICKS_RUNTIME_VERSION" in os.environ or ("SPARK_REMOTE" in os.environ and _local_remote() is None)
    if active is not None or is_given:
        return _required(active or SparkSession.builder.getOrCreate())
    return start_local(local_settings(config.pipeline) | {_OURS: "true"}, kafka=kafka or _reads_kafka(config), debug=debug)


def _required(session: SparkSession) -> SparkSession:
    """The session with what results depend on; a new one has the settings that its cluster began with."""
    for key, value in REQUIRED.items():
        if session.conf.get(key, None) != value:
            session.conf.set(key, value)
    return session


def _keep_utc() -> None:
    """Have Python tell times in UTC: what is collected and given to Spark again passes through its local time.

    There an hour occurs twice when summer time ends, and one of the two would come back as the other.
    """
    os.environ["TZ"] = "UTC"
    if hasattr(time, "tzset"):
        time.tzset()


def _reads_kafka(config: Named) -> bool:
    sources = getattr(config, "sources", {})
    return any(getattr(source, "kafka", None) is not None for source in sources.values())


def _local_remote() -> str | None:
    """What SPARK_REMOTE says where it asks for a Spark Connect server of our own, `local[2]` for instance."""
    remote = os.environ.get("SPARK_REMOTE", "")
    return remote if remote.startswith("local") else None


def is_connect(session: SparkSession) -> bool:
    """Whether the session is one of Spark Connect: its batches and tasks run in other processes than ours."""
    return ".connect." in type(session).__module__


def worker_sessions(session: SparkSession, count: int) -> list[SparkSession]:
    """A session for each of so many threads: settings made on one are seen by no other. Spark Connect has them from Spark 4.1 on.

    Those of Spark Connect stay with the session and are given out again. Python must not collect one while a call runs: that
    closes a pool of threads that all clients share, which waits for the call, which waits for the collection.
    """
    if not is_connect(session):
        return [_required(session.newSession()) for _ in range(count)]
    clone = getattr(session, "cloneSession", None)
    if clone is None:
        return [session] * count
    kept: list[SparkSession] = session.__dict__.setdefault(_WORKERS, [])
    kept.extend(clone() for _ in range(count - len(kept)))
    return kept[:count]


def close_session(session: SparkSession) -> None:
    """Stop a session that `open_session` started; one that was active before stays as it is."""
    if session.conf.get(_OURS, "false") == "true":
        stop_session(session)


def stop_session(session: SparkSession) -> None:
    """Stop a session and its workers.

    Those of Spark Connect go first: as long as one is open, Python has it ask the server for something when it ends, and
    ask again for ten minutes when there is none any more.
    """
    if not is_connect(session):
        session.stop()
        return
    client, *of_workers = (_client(each) for each in (session, *session.__dict__.pop(_WORKERS, ())))
    for worker in of_workers:
        with contextlib.suppress(Exception):  # the server may be gone
            worker.release_session()
        worker.close()
    session.stop()
    for each in (client, *of_workers):
        each.close = _nothing  # the next command's calls may run when these are collected


def release_streams(session: SparkSession) -> None:
    """Close the connections that streams have left which have ended; nothing where one is still active.

    Each stream of a classic session calls Python from a thread of its own. Py4J keeps that thread's connection, with a thread
    and files on both sides, until the client that made it is replaced.
    """
    gateway: Any = getattr(getattr(session, "_sc", None), "_gateway", None)
    if getattr(gateway, "_callback_server", None) is None or session.streams.active:
        return
    with contextlib.suppress(Exception):  # other gateways may not know it; then they go on as before
        client = gateway.java_gateway_server.getCallbackClient()
        gateway.java_gateway_server.resetCallbackClient(client.getAddress(), client.getPort())


def _client(session: SparkSession) -> Any:
    """What a session of Spark Connect speaks to its server with."""
    return cast(Any, session).client


def _nothing() -> None:
    """What is left to do for a client that is closed."""


@contextlib.contextmanager
def shared_session(config: Named) -> Iterator[None]:
    """One session for all that is opened and closed meanwhile; it ends as `close_session` would have it."""
    session = open_session(config)
    is_ours = str(session.conf.get(_OURS, "false"))
    session.conf.set(_OURS, "false")
    try:
        yield
    finally:
        session.conf.set(_OURS, is_ours)
        close_session(session)


def jvm_process(session: SparkSession) -> int | None:
    """The process id of the JVM that `open_session` started, None where the session is not local."""
    gateway = getattr(getattr(session, "_sc", None), "_gateway", None)
    pid = getattr(getattr(gateway, "proc", None), "pid", None)
    return pid if isinstance(pid, int) else None


def local_settings(name: str, *, cores: int | None = None) -> dict[str, str]:
    """The settings of a local session; `cores` None means all."""
    count = cores or os.cpu_count() or 1
    return {
        **REQUIRED,
        "spark.app.name": f"mainstem {name}",
        "spark.master": os.environ.get("MAINSTEM_MASTER") or (f"local[{cores}]" if cores else "local[*]"),
        "spark.driver.memory": os.environ.get("MAINSTEM_DRIVER_MEMORY") or "2g",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.extraJavaOptions": _java_options(),
        "spark.pyspark.python": sys.executable,
        "spark.executorEnv.TZ": "UTC",
        "spark.executorEnv.PYTHONPATH": str(Path(__file__).resolve().parents[1]),
        # PySpark would tell Spark the line of Python of each column that is built: dozens of calls and a search for IPython.
        "spark.python.sql.dataFrameDebugging.enabled": "false",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.scheduler.mode": "FAIR",
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.sql.shuffle.partitions": str(max(2, 2 * count)),
        "spark.sql.warehouse.dir": os.path.join(tempfile.gettempdir(), f".mainstem-warehouse-{os.getpid()}"),
        "spark.sql.execution.arrow.maxRecordsPerBatch": "5000",
        "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
        "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
        "spark.sql.parquet.int96RebaseModeInRead": "CORRECTED",
        "spark.sql.parquet.int96RebaseModeInWrite": "CORRECTED",
        # A snapshot's partitions are the tasks of the job that opens a table, which a small run does hundreds of times.
        "spark.databricks.delta.snapshotPartitions": "1",
        # VACUUM lists folders in so many tasks, ten thousand by default: right for an object store, minutes on one machine.
        "spark.sql.sources.parallelPartitionDiscovery.parallelism": str(max(2, 2 * count)),
        # Spark's and Delta's first choice of how to rename a file starts a process for each name, a thousand in a small run.
        "spark.delta.logStore.file.impl": "io.delta.storage.LocalLogStore",
        "spark.sql.streaming.checkpointFileManagerClass": _checkpoint_files(),
    }


# Most of a short run is the JVM warming up: its best compiler is left to code that is hot for longer than that.
# With one compiler alone the room for code would be 48 MB, which Spark fills within a minute; then nothing is compiled.
_PATIENT = (
    "Tier4InvocationThreshold=500000",
    "Tier4MinInvocationThreshold=60000",
    "Tier4CompileThreshold=1500000",
    "Tier4BackEdgeThreshold=400000",
    "ReservedCodeCacheSize=240m",
)


def _checkpoint_files() -> str:
    """The class that writes checkpoints through Hadoop's plain file system; Spark 4.1 has moved it."""
    package = "org.apache.spark.sql.execution.streaming"
    is_moved = tuple(int(part) for part in pyspark.__version__.split(".")[:2]) >= (4, 1)
    return (
        f"{package}.checkpointing.FileSystemBasedCheckpointFileManager" if is_moved else f"{package}.FileSystemBasedCheckpointFileManager"
    )


def _java_options() -> str:
    own = ["-Duser.timezone=UTC", f'"-Dlog4j2.configurationFile={_log_settings()}"', *(f"-XX:{option}" for option in _PATIENT)]
    return " ".join([*own, *class_archive.java_options(), os.environ.get("MAINSTEM_JAVA_OPTIONS", "")]).strip()


def start_local(settings: dict[str, str], *, kafka: bool = False, debug: bool = False) -> SparkSession:
    """A new local session with these settings and Delta's artifacts, from the cache or else by Ivy."""
    ways = resolutions(kafka=kafka)
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    session = _with_known(settings, ways, debug)
    if session is None:
        with one_at_a_time():
            session = _with_known(settings, ways, debug) or _resolved(settings, ways, debug)
    if not is_connect(session):
        session.sparkContext.setLogLevel("ERROR")
    set_pace(session, 0)
    for name in _TALKATIVE:
        PySparkLogger.getLogger(name).disabled = not debug
    return session


def _with_known(settings: dict[str, str], ways: Sequence[Resolution], debug: bool) -> SparkSession | None:
    """A session with artifacts that were found earlier, None where none were."""
    known = next((jars for way in ways if (jars := known_jars(way.coordinates))), None)
    return _started({**settings, "spark.jars": ",".join(known)}, debug) if known else None


def _resolved(settings: dict[str, str], ways: Sequence[Resolution], debug: bool) -> SparkSession:
    """A session with artifacts that Ivy found, and remembered."""
    for way in ways[:-1]:
        try:
            return _found(settings, way, debug)
        except MainstemError as error:
            if error.condition != "JARS_UNAVAILABLE":
                raise
    return _found(settings, ways[-1], debug)


def _found(settings: dict[str, str], way: Resolution, debug: bool) -> SparkSession:
    session = _started(_with_packages(settings, way), debug)
    remember_jars(way.coordinates, [_local_path(jar) for jar in session.sparkContext.getConf().get("spark.jars", "").split(",") if jar])
    return session


def _with_packages(settings: dict[str, str], way: Resolution) -> dict[str, str]:
    write_ivy_settings(way.settings)
    return {**settings, **way.settings, "spark.jars.packages": ",".join(way.coordinates)}


def _started(settings: dict[str, str], debug: bool) -> SparkSession:
    builder, remote = SparkSession.builder, _local_remote()
    for key, value in settings.items():
        if remote is None or key != "spark.master":
            builder = builder.config(key, value)
    with _standard_error_kept(debug) as log, warnings.catch_warnings():
        warnings.simplefilter("ignore" if remote else "default")  # each setting that a running server does not take
        try:
            return builder.getOrCreate()
        except Exception as error:
            raise start_failure(log.read_text(errors="replace") if log else str(error)) from (error if debug else None)


@contextlib.contextmanager
def _standard_error_kept(debug: bool) -> Iterator[Path | None]:
    """Start the JVM with a file in place of what it prints to, which it keeps for life; nothing changes with `debug`."""
    if debug:
        yield None
        return
    sys.stdout.flush()
    sys.stderr.flush()
    saved = os.dup(1), os.dup(2)
    with tempfile.TemporaryDirectory(prefix="mainstem-spark-", ignore_cleanup_errors=True) as folder:
        log = Path(folder) / "stderr.log"
        target = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.dup2(target, 1)
        os.dup2(target, 2)
        try:
            yield log
        finally:
            for place, former in enumerate(saved, 1):
                os.dup2(former, place)
                os.close(former)
            os.close(target)


def _log_settings() -> str:
    return (Path(__file__).resolve().parent / "log4j2.properties").as_uri()


def _local_path(jar: str) -> str:
    return unquote(urlsplit(jar).path) if jar.startswith("file:") else jar
