"""The Spark session: that of the cluster if there is one, else a local one."""

from __future__ import annotations

import atexit
import contextlib
import os
import re
import shutil
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol, cast

import pyspark
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

from framework.spark import cds_archive
from framework.spark.function_lookup import remember_functions
from framework.spark.jvm_signals import deaf_children
from framework.spark.loading_ahead import loading_ahead
from framework.spark.machine_memory import machine_memory
from framework.spark.required_settings import REQUIRED, require_settings
from framework.spark.resolution import verified_jars
from framework.spark.running_session import running_session
from framework.spark.session_use import USES, begin_use, end_use
from framework.spark.startup_errors import start_failure
from framework.spark.tuning import NOTED, is_of_mainstem, own_settings, put_back, tune_for_rows

_WORKERS = "mainstem_workers"
_WAREHOUSE = "spark.sql.warehouse.dir"

# PySpark's own loggers write each failed query, values and Java frames included, to standard error.
_NOISY_LOGGERS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")


class PipelineName(Protocol):
    """Anything with the name of a pipeline."""

    @property
    def pipeline(self) -> str:
        """The pipeline's name."""


def open_session(
    config: PipelineName, *, kafka: bool = False, debug: bool = False, ahead: Sequence[str] = ()
) -> SparkSession:
    """A session with Delta, in UTC and with ANSI arithmetic; raises MainstemError when Spark cannot start.

    A session that this process has is used, as on Databricks, whichever thread has started it. SPARK_REMOTE
    is respected; `local[2]` as its value starts a Spark Connect server on this machine. MAINSTEM_MASTER
    replaces `local[*]`, MAINSTEM_DRIVER_MEMORY the 2 GB of the driver, and MAINSTEM_JAVA_OPTIONS adds to its
    options. Without `debug` the standard error of the JVM goes to a temporary file. Kafka's connector is
    loaded with `kafka`, or if the configuration has a Kafka source. The modules `ahead` are imported while a
    session of this machine starts.
    """
    keep_utc()
    is_given = "DATABRICKS_RUNTIME_VERSION" in os.environ or (
        "SPARK_REMOTE" in os.environ and _local_remote() is None
    )
    with USES:
        session = running_session() or (SparkSession.builder.getOrCreate() if is_given else None)
        if session is not None:
            begin_use(session)
            remember_functions(session)
            return session
        with loading_ahead(ahead):
            started = start_local(
                local_settings(config.pipeline), kafka=kafka or _reads_kafka(config), debug=debug
            )
        begin_use(started, stop_session)
        return started


def keep_utc() -> None:
    """Let Python use UTC: collected times pass through its local time on their way back to Spark.

    There an hour occurs twice when summer time ends, and one of the two would come back as the other.
    """
    os.environ["TZ"] = "UTC"
    if hasattr(time, "tzset"):
        time.tzset()


def _reads_kafka(config: PipelineName) -> bool:
    sources = getattr(config, "sources", {})
    return any(getattr(source, "kafka", None) is not None for source in sources.values())


def _local_remote() -> str | None:
    """The value of SPARK_REMOTE if it asks for our own Spark Connect server, `local[2]` for instance."""
    remote = os.environ.get("SPARK_REMOTE", "")
    return remote if remote.startswith("local") else None


def is_connect(session: SparkSession) -> bool:
    """Whether it is a session of Spark Connect: its batches and tasks run in other processes than ours."""
    return ".connect." in type(session).__module__


def worker_sessions(session: SparkSession, count: int) -> list[SparkSession]:
    """A session for each of so many threads: no other session sees the settings of one.

    Spark Connect has them from Spark 4.1 on. Its sessions stay with the given one and are reused. Python must
    not collect one during a call: that closes a pool of threads that all clients share, which waits for the
    call, which waits for the collection.
    """
    if not is_connect(session):
        workers = [_worker(session) for _ in range(count)]
        for worker in workers:
            require_settings(worker)
        return workers
    clone = getattr(session, "cloneSession", None)
    if clone is None:
        return [session] * count
    kept: list[SparkSession] = session.__dict__.setdefault(_WORKERS, [])
    kept.extend(clone() for _ in range(count - len(kept)))
    return kept[:count]


def _worker(session: SparkSession) -> SparkSession:
    """A session beside a classic one, which is not set up for a size.

    Beside a session of somebody else, one that has what that was given since its start: a new session would
    not have the settings with which a notebook opens a store.
    """
    if not (is_connect(session) or is_of_mainstem(session)):
        with contextlib.suppress(Py4JError):  # a platform may not allow the call
            classic = cast(Any, session)
            clone = type(session)(classic._sc, classic._jsparkSession.cloneSession())
            put_back(clone, own_settings(session))
            return clone
    return session.newSession()


def close_session(session: SparkSession) -> None:
    """End a use of a session. The last one stops a session that `open_session` started; any other stays open.

    It then has the settings again that it had before.
    """
    with USES:
        end_use(session)


def stop_session(session: SparkSession) -> None:
    """Stop a session and its workers.

    The workers of Spark Connect stop first: for an open one Python calls the server at its own end, and
    retries for ten minutes when there is none any more.
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
    """Close the connections of streams that have ended; does nothing while a stream is active.

    Each stream of a classic session calls Python from a thread of its own. Py4J keeps that thread's
    connection, with a thread and files on both sides, until the client that made it is replaced.
    """
    gateway: Any = getattr(getattr(session, "_sc", None), "_gateway", None)
    if getattr(gateway, "_callback_server", None) is None or session.streams.active:
        return
    with contextlib.suppress(Exception):  # other gateways may have no such method
        client = gateway.java_gateway_server.getCallbackClient()
        gateway.java_gateway_server.resetCallbackClient(client.getAddress(), client.getPort())


def _client(session: SparkSession) -> Any:
    """The client of a Spark Connect session."""
    return cast(Any, session).client


def _nothing() -> None:
    """Does nothing: the callback of a client that is closed."""


@contextlib.contextmanager
def shared_session(config: PipelineName, ahead: Sequence[str] = ()) -> Iterator[None]:
    """One session for all `open_session` calls meanwhile; it ends as with `close_session`."""
    session = open_session(config, ahead=ahead)
    try:
        yield
    finally:
        close_session(session)


def jvm_process(session: SparkSession) -> int | None:
    """The process id of the JVM that `open_session` started, None where the session is not local."""
    gateway = getattr(getattr(session, "_sc", None), "_gateway", None)
    pid = getattr(getattr(gateway, "proc", None), "pid", None)
    return pid if isinstance(pid, int) else None


OPEN_TABLES = "spark.databricks.delta.delta.log.cacheSize"


def local_settings(name: str, *, cores: int | None = None) -> dict[str, str]:
    """The settings of a local session; `cores` None means all."""
    count = cores or os.cpu_count() or 1
    memory = os.environ.get("MAINSTEM_DRIVER_MEMORY") or "2g"
    return {
        **REQUIRED,
        "spark.app.name": f"mainstem {name}",
        "spark.master": os.environ.get("MAINSTEM_MASTER") or (f"local[{cores}]" if cores else "local[*]"),
        "spark.driver.memory": memory,
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.extraJavaOptions": _java_options(),
        "spark.pyspark.python": sys.executable,
        "spark.executorEnv.TZ": "UTC",
        # What Arrow has freed, its own allocator keeps: 60 MB more in each Python worker.
        "spark.executorEnv.ARROW_DEFAULT_MEMORY_POOL": "jemalloc",
        "spark.executorEnv.PYTHONPATH": str(Path(__file__).resolve().parents[2]),
        # PySpark would send Spark the Python line of each column: dozens of calls, a search for IPython.
        "spark.python.sql.dataFrameDebugging.enabled": "false",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.scheduler.mode": "FAIR",
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.sql.shuffle.partitions": str(max(2, 2 * count)),
        "spark.sql.execution.arrow.maxRecordsPerBatch": "5000",
        "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
        "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
        "spark.sql.parquet.int96RebaseModeInRead": "CORRECTED",
        "spark.sql.parquet.int96RebaseModeInWrite": "CORRECTED",
        # Readers other than Spark take times as INT96 for nanoseconds, in which years beyond 2262 do not fit.
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
        # A round needs more generated classes than the hundred that Spark keeps by default.
        "spark.sql.codegen.cache.maxEntries": "1000",
        # Opening a Delta table runs a job with so many tasks, by default 50; a small run opens hundreds.
        "spark.databricks.delta.snapshotPartitions": "1",
        OPEN_TABLES: str(_open_tables(memory)),
        # VACUUM lists folders in so many tasks, by default ten thousand, which takes minutes on one machine.
        "spark.sql.sources.parallelPartitionDiscovery.parallelism": str(max(2, 2 * count)),
        # Each page of a Parquet file has a checksum, which readers only look at where they are told to.
        "spark.hadoop.parquet.page.verify-checksum.enabled": "true",
        # The default way to rename a file starts a process for each name, a thousand in a small run.
        "spark.delta.logStore.file.impl": "io.delta.storage.LocalLogStore",
        "spark.sql.streaming.checkpointFileManagerClass": _checkpoint_files(),
    }


_SIZE = re.compile(r"(\d+)\s*([kmgt]?)b?", re.IGNORECASE)


def _open_tables(memory: str) -> int:
    """How many Delta tables the driver keeps open, by its memory as Spark writes it (`2g`).

    An open table of twelve columns takes 3 MB, and stays for an hour; Delta would keep ten thousand.
    """
    found = _SIZE.fullmatch(memory.strip())
    if found is None:
        return 128
    megabytes = int(found[1]) * {"": 2**-20, "k": 2**-10, "m": 1, "g": 2**10, "t": 2**20}[found[2].lower()]
    return max(32, int(megabytes / 16))


_FIRST_HEAP_BYTES = 1024**3
"""With the JVM's default, a 64th of the machine, a short run collects garbage a hundred times."""

# Most of a short run is the JVM warming up: its best compiler gets only methods that stay hot for longer.
# Loops come to it as soon as by default: large tables spend their time there.
# With one compiler alone the code cache has 48 MB, which Spark fills in a minute; then nothing is compiled.
_JIT_OPTIONS = (
    "Tier4InvocationThreshold=50000",
    "Tier4MinInvocationThreshold=6000",
    "Tier4CompileThreshold=150000",
    "ReservedCodeCacheSize=240m",
    # Spark loads 150 MB of classes: from 21 MB on, each step of this pool collects the whole heap
    "MetaspaceSize=256m",
)


def _checkpoint_files() -> str:
    """The class that writes checkpoints through Hadoop's plain file system; Spark 4.1 has moved it."""
    package = "org.apache.spark.sql.execution.streaming"
    is_moved = tuple(int(part) for part in pyspark.__version__.split(".")[:2]) >= (4, 1)
    return (
        f"{package}.checkpointing.FileSystemBasedCheckpointFileManager"
        if is_moved
        else f"{package}.FileSystemBasedCheckpointFileManager"
    )


def _java_options() -> str:
    own = [
        # a share, because a fixed size above a limit that comes from elsewhere (_JAVA_OPTIONS) is an error
        f"-XX:InitialRAMPercentage={min(50.0, 100 * _FIRST_HEAP_BYTES / machine_memory()):.2f}",
        "-Duser.timezone=UTC",
        f'"-Dlog4j2.configurationFile={_log_settings()}"',
        *(f"-XX:{option}" for option in _JIT_OPTIONS),
    ]
    return " ".join([*own, *cds_archive.java_options(), os.environ.get("MAINSTEM_JAVA_OPTIONS", "")]).strip()


def start_local(settings: dict[str, str], *, kafka: bool = False, debug: bool = False) -> SparkSession:
    """A new local session with these settings and Delta's artifacts, which are verified before it starts."""
    jars = ",".join(verified_jars(kafka=kafka, debug=debug))
    settings = {_WAREHOUSE: _private_warehouse(), "spark.jars": jars, **settings}
    if _local_remote() is None:
        settings |= NOTED
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    session = _started(settings, debug)
    if not is_connect(session):
        session.sparkContext.setLogLevel("ERROR")
        _write_no_checksum_files(session)
    remember_functions(session)
    tune_for_rows(session, 0)
    for name in _NOISY_LOGGERS:
        PySparkLogger.getLogger(name).disabled = not debug
    return session


def _write_no_checksum_files(session: SparkSession) -> None:
    """Let Hadoop write files of this machine without a second file that has their checksums.

    Each access to a Delta table lists its log, and asks a local disk for the size and the time of each file.
    Of four files for each commit, two would be such checksums. The pages of Parquet files have their own.
    """
    if not is_connect(session):
        jvm: Any = session._jvm
        files = jvm.org.apache.hadoop.fs.FileSystem.getLocal(session._jsc.hadoopConfiguration())
        files.setWriteChecksum(False)


def _private_warehouse() -> str:
    """A folder of this process for the session's own catalog; it is removed when the process ends."""
    folder = tempfile.mkdtemp(prefix="mainstem-warehouse-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def _started(settings: dict[str, str], debug: bool) -> SparkSession:
    builder, remote = SparkSession.builder, _local_remote()
    for key, value in settings.items():
        if remote is None or key != "spark.master":
            builder = builder.config(key, value)
    with _standard_error_kept(debug) as log, warnings.catch_warnings(), deaf_children():
        warnings.simplefilter(
            "ignore" if remote else "default"
        )  # each setting that a running server does not take
        try:
            return builder.getOrCreate()
        except Exception as error:
            raise start_failure(log.read_text(errors="replace") if log else str(error)) from (
                error if debug else None
            )


@contextlib.contextmanager
def _standard_error_kept(debug: bool) -> Iterator[Path | None]:
    """Start the JVM with a file as its standard error, for its whole life; nothing changes with `debug`."""
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
