"""Delta's and Kafka's JVM artifacts: Ivy finds them once, later starts name their paths and save a second."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path

from framework.errors import MainstemError
from framework.private_files import is_private_folder, is_trusted, private_folder, replace_text

SCALA = "2.13"

_CONNECTOR, _TOKENS = f"spark-sql-kafka-0-10_{SCALA}", f"spark-token-provider-kafka-0-10_{SCALA}"
_CENTRAL = "https://repo1.maven.org/maven2"
_CONNECTOR_OF_LINE = {"4.1": "4.1.3"}
_TOKENS_EVERYWHERE = "4.0.0"
_PINS = Path(__file__).resolve().parent / "jars.sha256"


@dataclass(frozen=True, slots=True)
class Resolution:
    """One way to find the artifacts: their coordinates, and the settings of Spark's Ivy beside them."""

    coordinates: tuple[str, ...]
    settings: Mapping[str, str] = field(default_factory=dict)


def cache_folder() -> Path:
    """The folder for what Mainstem can find again: MAINSTEM_CACHE, else `~/.cache/mainstem`.

    A user without a home has a folder in the temporary one. Its content is used only if no other user can
    have written it.
    """
    chosen = os.environ.get("MAINSTEM_CACHE")
    if chosen:
        return Path(chosen)
    try:
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "mainstem"
    except RuntimeError:  # no HOME, and no entry of the user
        return Path(tempfile.gettempdir()) / f"mainstem-cache-{os.geteuid()}"


def packages(*, kafka: bool) -> tuple[str, ...]:
    """The coordinates of the artifacts that a session needs, in step with the installed Python packages."""
    spark = version("pyspark")
    line = ".".join(spark.split(".")[:2])
    names = [f"io.delta:delta-spark_{line}_{SCALA}:{version('delta-spark')}"]
    if kafka:
        names.append(f"org.apache.spark:{_CONNECTOR}:{spark}")
    return tuple(names)


def resolutions(*, kafka: bool) -> tuple[Resolution, ...]:
    """The ways to find the artifacts, best first.

    Mirrors of Maven Central may lack some releases of Kafka's connector, and most of its module for
    delegation tokens, which has not changed for years. The second way names releases that mirrors have, in an
    Ivy cache of its own.
    """
    ways = [Resolution(packages(kafka=kafka))]
    line = ".".join(version("pyspark").split(".")[:2])
    if kafka and line in _CONNECTOR_OF_LINE:
        cache = cache_folder() / "ivy"
        settings = {"spark.jars.ivy": str(cache), "spark.jars.ivySettings": str(cache / "settings.xml")}
        connector = f"org.apache.spark:{_CONNECTOR}:{_CONNECTOR_OF_LINE[line]}"
        ways.append(Resolution((*packages(kafka=False), connector), settings))
    return tuple(ways)


def write_ivy_settings(settings: Mapping[str, str]) -> None:
    """Write the file of Ivy settings that a resolution names, if it names one."""
    path = settings.get("spark.jars.ivySettings")
    if path is not None:
        Path(path).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        replace_text(Path(path), _IVY_SETTINGS)


_IVY_SETTINGS = f"""<ivysettings>
  <settings defaultResolver="central"/>
  <resolvers>
    <ibiblio name="central" m2compatible="true" root="{_CENTRAL}/"/>
    <url name="tokens" m2compatible="true" checkconsistency="false">
      <artifact pattern="{_CENTRAL}/org/apache/spark/{_TOKENS}/{_TOKENS_EVERYWHERE}/{_TOKENS}-{_TOKENS_EVERYWHERE}.[ext]"/>
    </url>
  </resolvers>
  <modules><module organisation="org.apache.spark" name="{_TOKENS}" resolver="tokens"/></modules>
</ivysettings>
"""  # noqa: E501


def known_jars(coordinates: Sequence[str]) -> tuple[str, ...] | None:
    """The local jars that were found earlier for these artifacts, None unless all still exist."""
    try:
        jars = (
            json.loads(_index().read_text())[_key(coordinates)]
            if is_private_folder(cache_folder()) and is_trusted(_index())
            else None
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None
    if (
        not isinstance(jars, list)
        or not jars
        or not all(isinstance(jar, str) and os.path.isfile(jar) and is_trusted(jar) for jar in jars)
    ):
        return None
    return tuple(jars)


@contextlib.contextmanager
def one_at_a_time() -> Iterator[None]:
    """Wait for any other process that resolves artifacts, since Ivy's cache has no lock.

    Where nothing can be written there is no lock.
    """
    try:
        cache_folder().mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(
            cache_folder() / "jars.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600
        )
    except OSError:
        yield
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def check_jars(jars: Sequence[str]) -> None:
    """Compare artifacts with the hashes of `jars.sha256`; a release without a hash passes.

    Raises:
        MainstemError: JARS_CHANGED, where a file differs from the one whose hash was recorded.
    """
    pinned = {name: digest for digest, name in (line.split() for line in _PINS.read_text().splitlines())}
    checked = [jar for jar in map(Path, jars) if jar.name in pinned]
    with ThreadPoolExecutor(max_workers=4) as pool:  # 100 MB, at every start
        digests = list(pool.map(_digest, checked))
    for jar, digest in zip(checked, digests, strict=True):
        if digest != pinned[jar.name]:
            raise MainstemError(
                "JARS_CHANGED",
                found="an artifact that is not the published one",
                where=str(jar),
                action="remove it and run again; if it stays, the repository it came from hands out "
                "another file: ask who runs it",
            )


def _digest(jar: Path) -> str:
    with jar.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def remember_jars(coordinates: Sequence[str], jars: Sequence[str]) -> None:
    """Record the paths of the artifacts; a cache that cannot be written is no error."""
    index = _index()
    if private_folder(index.parent):
        with contextlib.suppress(OSError):
            replace_text(index, json.dumps(_content(index) | {_key(coordinates): list(jars)}, indent=1))


def _content(index: Path) -> dict[str, object]:
    try:
        content = json.loads(index.read_text())
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def _index() -> Path:
    return cache_folder() / "jars.json"


def _key(coordinates: Sequence[str]) -> str:
    return " ".join(sorted(coordinates))
