"""Checks sources against each other, the lakehouse and the disk."""

from __future__ import annotations

import os
import re
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from framework.config.document import Document, KeyPath
from framework.config.faults import Faults
from framework.config.quoting import is_plain
from framework.config.sources import Kafka, Source
from framework.config.value_types import is_url, split_name
from framework.errors import ConfigurationError, nearest
from framework.naming import quoted

_SAME_STORES = {"s3a": "s3", "s3n": "s3", "abfs": "abfss", "wasb": "wasbs"}
"""Schemes that name a place which another scheme names, too."""
_VOLUME = re.compile(r"^/Volumes(?:/[^/]+){1,3}")
_CREATE, _CORRECT = "create the folder, or correct `files:`", "correct `files:`"


@dataclass(frozen=True, slots=True)
class OwnPlaces:
    """Where a pipeline keeps its tables and checkpoints: a lakehouse that is no catalog has both."""

    lakehouse: str | None
    checkpoints: str | None

    @property
    def named(self) -> dict[str, str]:
        """Each place with what it is, for people."""
        found = {"the lakehouse lies": self.lakehouse, "the checkpoints lie": self.checkpoints}
        return {name: place for name, place in found.items() if place is not None}


def check_places(sources: Mapping[str, Source], own: OwnPlaces, document: Document, faults: Faults) -> None:
    """Refuse two sources that read one place, and a landing folder that contains a place of the pipeline."""
    for first, second in _neighbours(sources):
        one, other = sources[first], sources[second]
        for key, place in _shared(one, other):
            found = (
                f"the sources '{first}' and '{second}' both read "
                f"{_describe(place, first, second, key, document)}"
            )
            action = "give each source a place of its own, or make them one source"
            _add_overlap(("sources", second, key), found, action, document, faults)
        if own.lakehouse is None and first.casefold() == second.casefold():
            found = (
                f"the sources '{first}' and '{second}', whose tables in ops a catalog would not tell apart"
            )
            action = "give each source a name of its own, whatever the case of its letters"
            _add_overlap(("sources", second), found, action, document, faults)
    for name, source in sources.items():
        for what, place in own.named.items():
            if source.files is not None and _holds(source.files, place):
                found = f"{what} inside the folder that '{name}' reads"
                action = f"keep {what.rpartition(' ')[0]} outside the landing folders"
                _add_overlap(("sources", name, "files"), found, action, document, faults)


def check_lakehouse(lakehouse: str, document: Document, faults: Faults) -> None:
    """Refuse a lakehouse that no Delta table can be in.

    That is a folder which Databricks mounts from elsewhere, and a place which is a file, or below a file, if
    this machine sees it.
    """
    if _is_mounted(lakehouse):
        keys = ("lakehouse",)
        error = ConfigurationError(
            "CONFIG_BAD_VALUE",
            found=f"{document.quoted(keys)}, where Databricks keeps files and no tables",
            where=document.where(keys),
            action="write a catalog, as {catalog: main, schema_prefix: shop_}, and the volume as"
            " `checkpoints:`; or the URL of an external location",
        )
        faults.add(keys, error)
        return
    place = lakehouse
    while not is_url(place) and not os.path.lexists(place) and os.path.dirname(place) != place:
        place = os.path.dirname(place)
    if is_url(place) or os.path.isdir(place) or not os.path.exists(place):
        return
    keys = ("lakehouse",)
    found = (
        f"{document.quoted(keys)}, and {'this' if place == lakehouse else 'a part of this path'} is a file"
    )
    action = "name a folder; it is made if it is not there"
    faults.add(
        keys, ConfigurationError("CONFIG_BAD_VALUE", found=found, where=document.where(keys), action=action)
    )


def _is_mounted(place: str) -> bool:
    """Whether a place is in a volume of Databricks, or in a folder that it mounts; not the disks of macOS."""
    if is_url(place):
        return _resolved(place).casefold().startswith("/volumes/")
    return place.startswith(("/Volumes/", "/dbfs/")) and sys.platform != "darwin"


def _add_overlap(keys: KeyPath, found: str, action: str, document: Document, faults: Faults) -> None:
    where = document.where(keys)
    faults.add(keys, ConfigurationError("CONFIG_SOURCES_OVERLAP", found=found, where=where, action=action))


def _describe(place: str, first: str, second: str, key: str, document: Document) -> str:
    """A place for people; as the file writes it if it has a reference, which may be a secret."""
    if key != "kafka":
        return document.quoted(("sources", second, key))
    has_reference = any(
        document.has_reference(("sources", name, "kafka", topics))
        for name in (first, second)
        for topics in ("topics", "topic_pattern")
    )
    return "one topic" if has_reference or not is_plain(place) else place


def check_folders(sources: Mapping[str, Source], document: Document, faults: Faults) -> None:
    """Refuse each source whose landing folder does not exist, if this machine can check it.

    It cannot for an object store, and for a Databricks volume elsewhere. A folder with a reference is looked
    for under its value, and named as the file writes it: the value may be a secret.
    """
    for name, source in sources.items():
        if source.files is not None and _is_missing(source.files, name, document):
            faults.add(("sources", name, "files"), _no_folder(source.files, name, document))


def _no_folder(folder: str, name: str, document: Document) -> ConfigurationError:
    keys = ("sources", name, "files")
    written = str(document.at(keys))
    has_reference = document.has_reference(keys)
    is_shown = is_plain(written)
    shown = (written if has_reference else folder) if is_shown else "of that name, which is not shown"
    return ConfigurationError(
        "LANDING_FOLDER_MISSING",
        found=f"a file, where a folder of files is needed: {shown}"
        if os.path.exists(folder)
        else f"no folder {shown}",
        where=document.where(keys),
        action=_instead(folder) if is_shown and not has_reference else _CREATE if is_shown else _CORRECT,
    )


def _is_missing(folder: str, name: str, document: Document) -> bool:
    if is_url(folder) or "${" in folder:  # a reference that cannot be resolved is a fault of its own
        return False
    is_elsewhere = folder.startswith("/Volumes/") and not os.path.isdir("/Volumes")
    return not is_elsewhere and not os.path.isdir(folder)


def _instead(folder: str) -> str:
    if os.path.exists(folder):
        return "write the folder that it is in"
    parent, name = os.path.split(folder)
    if any(character in name for character in "*?["):
        return f"write the folder alone, {parent}: every file below it is read"
    try:
        beside = [entry.name for entry in os.scandir(parent) if entry.is_dir()]
    except OSError:
        beside = []
    meant = nearest(name, beside)
    return (f"did you mean '{meant}' in {parent}? " if meant else "") + _CREATE


def _neighbours(sources: Mapping[str, Source]) -> Sequence[tuple[str, str]]:
    """The pairs of sources that may share a place or a name, as there may be thousands of sources."""
    order = {name: number for number, name in enumerate(sources)}
    groups: dict[tuple[str, str], list[str]] = defaultdict(list)
    for name, source in sources.items():
        for key in (("name", name.casefold()), *_tables_and_topics(source)):
            groups[key].append(name)
    pairs = {pair for group in groups.values() for pair in combinations(group, 2)}
    topics = [(text, group) for (kind, text), group in groups.items() if kind == "topic"]
    for (kind, pattern), readers in groups.items():
        if kind == "pattern":
            covered = [group for topic, group in topics if _covers(pattern, topic)]
            pairs |= {(one, other) for one in readers for group in covered for other in group}
    pairs |= set(_nested(sources))
    ordered = {tuple(sorted(pair, key=order.__getitem__)) for pair in pairs if pair[0] != pair[1]}
    return sorted(((one, other) for one, other in ordered), key=lambda pair: [order[name] for name in pair])


def _tables_and_topics(source: Source) -> Iterator[tuple[str, str]]:
    if source.table is not None:
        yield "table", _table(source.table)
    for topic in (source.kafka.topics if source.kafka else None) or ():
        yield "topic", topic
    if source.kafka and source.kafka.topic_pattern is not None:
        yield "pattern", source.kafka.topic_pattern


def _nested(sources: Mapping[str, Source]) -> Iterator[tuple[str, str]]:
    """The pairs of sources whose landing folders are the same, or of which one contains the other."""
    folders = [(name, source.files) for name, source in sources.items() if source.files is not None]
    places = sorted((_resolved(folder).rstrip("/") + "/", name) for name, folder in folders)
    outer: list[tuple[str, str]] = []
    for place, name in places:
        while outer and not place.startswith(outer[-1][0]):
            outer.pop()
        yield from ((above, name) for _, above in outer)
        outer.append((place, name))


def _shared(one: Source, other: Source) -> Iterator[tuple[str, str]]:
    if (
        one.files is not None
        and other.files is not None
        and (_holds(one.files, other.files) or _holds(other.files, one.files))
    ):
        yield "files", max(one.files, other.files, key=len)
    if one.table is not None and other.table is not None and _table(one.table) == _table(other.table):
        yield "table", one.table
    if one.kafka is not None and other.kafka is not None and _servers(one.kafka) & _servers(other.kafka):
        topic = _shared_topic(one.kafka, other.kafka)
        if topic is not None:
            yield "kafka", f"the topic {topic}"


def _holds(folder: str, place: str) -> bool:
    outer, inner = _resolved(folder), _resolved(place)
    return inner == outer or inner.startswith(outer.rstrip("/") + "/")


def _resolved(place: str) -> str:
    """A text that is the same for all ways to write a place: a folder of this machine, a volume or a URL."""
    scheme, colon, rest = place.partition(":/") if is_url(place) else ("", "", "")
    if colon and scheme.lower() != "dbfs":
        host, _, path = rest[1:].partition("/") if rest.startswith("/") else ("", "", rest)
        scheme, path = scheme.lower(), os.path.normpath("/" + path.lstrip("/")).rstrip("/")
        return f"{_SAME_STORES.get(scheme, scheme)}://{host}{path}"
    path = f"/{rest.lstrip('/')}" if colon else place
    if colon and not path.startswith("/Volumes/"):
        path = f"/dbfs{path}"  # where Databricks mounts it
    # a catalog ignores case in the names of a volume
    return _VOLUME.sub(lambda found: found[0].casefold(), os.path.realpath(path))


def _table(table: str) -> str:
    """The same for the place of a table: a path, or a name in a catalog, which ignores case."""
    if "/" in table:
        return _resolved(table)
    try:
        return ".".join(map(quoted, split_name(table))).casefold()
    except ValueError:
        return table.casefold()


def _servers(kafka: Kafka) -> set[str]:
    return {server.strip().lower() for server in kafka.bootstrap_servers.split(",")}


def _shared_topic(one: Kafka, other: Kafka) -> str | None:
    if one.topic_pattern is not None and one.topic_pattern == other.topic_pattern:
        return one.topic_pattern
    common = set(one.topics or ()) & set(other.topics or ())
    common |= {topic for topic in other.topics or () if _covers(one.topic_pattern, topic)}
    common |= {topic for topic in one.topics or () if _covers(other.topic_pattern, topic)}
    return min(common, default=None)


def _covers(pattern: str | None, topic: str) -> bool:
    try:
        return pattern is not None and re.fullmatch(pattern, topic) is not None
    except re.error:
        return False  # Java's dialect of regular expressions; Kafka reports an error
