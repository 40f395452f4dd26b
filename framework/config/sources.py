"""The `sources` part of the configuration: the place of each feed, and the settings of its format."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import timedelta
from difflib import get_close_matches
from enum import StrEnum
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictInt, ValidationError

from framework.config.document import Document
from framework.config.errors import config_error, unknown_key
from framework.config.quoting import quoted_key
from framework.config.value_types import Duration, Zone, absolute_place
from framework.errors import ConfigurationError, nearest, suggested

PLACES = ("files", "kafka", "table")

_SPARK_PLACES = frozenset({"subscribe", "subscribePattern", "assign", "kafka.bootstrap.servers"})
_SOURCE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}")


class Layout(StrEnum):
    """How files hold messages: one value on each line, or one JSON object as `kcat -J` prints it."""

    LINES = "lines"
    KCAT = "kcat"


class Order(StrEnum):
    """What orders changes whose positions are only times: the place in the partition, or only the time."""

    PARTITION = "partition"
    TIME = "time"


class MessageColumn(StrEnum):
    """What a row of a table of messages holds of one message."""

    VALUE = "value"
    KEY = "key"
    TOPIC = "topic"
    PARTITION = "partition"
    OFFSET = "offset"
    TIMESTAMP = "timestamp"
    HEADERS = "headers"


class Kafka(BaseModel):
    """A Kafka source: exactly one of `topics` and `topic_pattern`; other keys are options of Spark's reader.

    Only the topics are ever shown: the rest may be secret.
    """

    model_config = ConfigDict(extra="allow", frozen=True)

    __pydantic_extra__: dict[str, str | StrictInt | bool] = Field(init=False)

    bootstrap_servers: str = Field(min_length=1)
    topics: tuple[str, ...] | None = Field(default=None, min_length=1)
    topic_pattern: str | None = Field(default=None, min_length=1)

    @property
    def options(self) -> dict[str, str]:
        """The other keys, as Spark's reader takes them."""
        extra = self.__pydantic_extra__ or {}
        return {
            key: str(value).lower() if isinstance(value, bool) else str(value) for key, value in extra.items()
        }

    def __repr__(self) -> str:
        return f"Kafka(topics={self.topics!r}, topic_pattern={self.topic_pattern!r}, ...)"

    __str__ = __repr__


class Source(BaseModel):
    """One feed. Exactly one of `files`, `kafka` and `table` is set.

    Attributes:
        name: The source.
        format: The name of its format.
        files: The absolute path of the landing folder.
        table: An absolute path if it has a slash, else a catalog name.
        columns: The names of a table's columns for the parts of a message.
        auto_loader: False lists folders that Auto Loader could watch.
        follow_links: Read links that lead out of a folder.
        max_gzip_ratio: How many times its compressed data one file may hold.
        max_file_messages: How many messages one file may hold.
        options: The format's own settings.
        order: None where the configuration has none; `is_ordered_by_partition` has the default.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    format: str
    files: str | None = Field(default=None, min_length=1)
    kafka: Kafka | None = None
    table: str | None = Field(default=None, min_length=1)
    columns: dict[MessageColumn, str] = Field(default_factory=dict)
    layout: Layout = Layout.LINES
    auto_loader: StrictBool = True
    follow_links: StrictBool = False
    max_gzip_ratio: StrictInt = Field(default=200, ge=1)
    max_file_messages: StrictInt = Field(default=50_000_000, ge=1)
    timezone: Zone = "UTC"
    pairing_timeout: Duration = timedelta(minutes=10)
    epoch: StrictInt = Field(default=1, ge=1)
    order: Order | None = None
    options: BaseModel = Field(repr=False)

    @property
    def is_ordered_by_partition(self) -> bool:
        """Whether a partition has its messages in the source's order; files only if `order` says so."""
        if self.order is not None:
            return self.order is Order.PARTITION
        return self.files is None or self.layout is Layout.KCAT

    @property
    def place_text(self) -> str:
        """Where the messages come from, for people: a folder, a table or topics, without secrets."""
        if self.kafka is None:
            return self.files or f"table {self.table}"
        return (
            f"topic {', '.join(self.kafka.topics)}"
            if self.kafka.topics
            else f"topics like {self.kafka.topic_pattern}"
        )


COMMON_KEYS = frozenset(Source.model_fields) - {"name", "options"}


def read_sources(document: Document, formats: Mapping[str, type[BaseModel]]) -> dict[str, Source]:
    """The sources of a document with a mapping of them, checked with the settings of their formats."""
    resolved = document.resolved["sources"]
    assert isinstance(resolved, dict)
    return {name: _read_source(name, content, document, formats) for name, content in resolved.items()}


def _read_source(
    name: object, content: object, document: Document, formats: Mapping[str, type[BaseModel]]
) -> Source:
    if not isinstance(name, str) or not _SOURCE_NAME.fullmatch(name):
        raise ConfigurationError(
            "CONFIG_BAD_VALUE",
            found=f"the source name '{quoted_key(name, ('sources',))}'",
            where=document.where(("sources",)),
            action="begin with a letter or digit, and use only letters, digits, '_' and '-', "
            "a hundred at most",
        )
    at = ("sources", name)
    if not isinstance(content, dict):
        raise ConfigurationError(
            "CONFIG_WRONG_TYPE",
            found=document.quoted(at),
            where=document.where(at),
            action="write `format:` and one of `files:`, `kafka:`, `table:` below it",
        )
    if content.get("format") is None:
        raise _without_format(content, document, at, formats)
    model = formats[_known_format(content["format"], document, at, formats)]
    source = _validated(at, content, model, document)
    _check_place(source, document, at)
    return source.model_copy(update=_absolute_places(source, document.path.parent))


def _validated(
    at: tuple[str, str], content: Mapping[str, object], model: type[BaseModel], document: Document
) -> Source:
    """A source with its format's settings.

    A format may have a setting with the name of a place (`table`): it is meant if another place is written
    beside it.
    """
    shared = {
        place
        for place in PLACES
        if place in model.model_fields and any(key in content for key in PLACES if key != place)
    }
    own = {key: value for key, value in content.items() if key not in COMMON_KEYS or key in shared}
    for key in own:
        if key not in model.model_fields:
            raise unknown_key(document, (*at, str(key)), {*COMMON_KEYS, *model.model_fields})
    try:
        options = model.model_validate(own)
    except ValidationError as error:
        raise config_error(error, document, model, at) from None
    common = {key: value for key, value in content.items() if key not in own}
    _check_kafka_keys(common.get("kafka"), document, at)
    try:
        return Source.model_validate({**common, "name": at[1], "options": options})
    except ValidationError as error:
        raise config_error(error, document, Source, at) from None


def _check_kafka_keys(kafka: object, document: Document, at: tuple[str, str]) -> None:
    """Refuse misspelt keys, and Spark's names for what Mainstem sets; Spark checks other keys."""
    own = Kafka.model_fields
    for key in kafka if isinstance(kafka, dict) else ():
        if key not in own and (key in _SPARK_PLACES or get_close_matches(str(key), own, n=1, cutoff=0.85)):
            raise unknown_key(document, (*at, "kafka", str(key)), own)


def _without_format(
    content: Mapping[str, object],
    document: Document,
    at: tuple[str, str],
    formats: Mapping[str, type[BaseModel]],
) -> ConfigurationError:
    """The error for a source without a format.

    A key that no format reads may be the misspelt `format`, and comes first.
    """
    known = COMMON_KEYS.union(*(model.model_fields for model in formats.values()))
    strange = [str(key) for key in content if key not in known]
    if strange:
        return unknown_key(
            document, (*at, min(strange, key=lambda key: nearest(key, known) != "format")), known
        )
    return ConfigurationError(
        "CONFIG_MISSING_KEY",
        found="no key 'format'",
        where=document.where((*at, "format")),
        action=f"write `format:` with one of {', '.join(sorted(formats))}",
    )


def _known_format(
    name: object, document: Document, at: tuple[str, str], formats: Mapping[str, object]
) -> str:
    if not isinstance(name, str) or name not in formats:
        raise ConfigurationError(
            "CONFIG_UNKNOWN_FORMAT",
            found=f"the format {document.quoted((*at, 'format'))}",
            where=document.where((*at, "format")),
            action=suggested(str(name), formats),
        )
    return name


def _check_place(source: Source, document: Document, at: tuple[str, str]) -> None:
    written = [key for key in PLACES if getattr(source, key) is not None]
    if len(written) != 1:
        raise ConfigurationError(
            "CONFIG_SOURCE_PLACE",
            found=" and ".join(f"'{key}'" for key in written) or "none of 'files', 'kafka', 'table'",
            where=document.where(at),
            action="write exactly one of `files:`, `kafka:`, `table:`",
        )
    if source.columns and source.table is None:
        raise ConfigurationError(
            "CONFIG_SOURCE_PLACE",
            found="'columns' without 'table'",
            where=document.where((*at, "columns")),
            action="leave it out: only a table of messages has columns",
        )
    if source.kafka is not None and (source.kafka.topics is None) == (source.kafka.topic_pattern is None):
        both = source.kafka.topics is not None
        raise ConfigurationError(
            "CONFIG_SOURCE_PLACE",
            found="'topics' and 'topic_pattern'" if both else "neither 'topics' nor 'topic_pattern'",
            where=document.where((*at, "kafka")),
            action="write exactly one of `topics:` and `topic_pattern:`",
        )


def _absolute_places(source: Source, folder: Path) -> dict[str, object]:
    places: dict[str, object] = {}
    if source.files is not None:
        places["files"] = absolute_place(source.files, folder)
    if source.table is not None and "/" in source.table:
        places["table"] = absolute_place(source.table, folder)
    return places
