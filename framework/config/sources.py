"""The `sources` part of the configuration: the place of each feed, and the settings of its format."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import timedelta
from enum import StrEnum
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictInt, ValidationError, field_validator

from framework.config.document import Document, KeyPath
from framework.config.errors import add_model_faults, unknown_key
from framework.config.faults import Faults
from framework.config.java_regex import check_expression
from framework.config.kafka_options import instead_of, is_reader_option
from framework.config.quoting import quoted_key
from framework.config.value_types import Duration, Place, Zone, absolute_place, value_error
from framework.errors import ConfigurationError, suggested

PLACES = ("files", "kafka", "table")

_OF_FILES = ("layout", "auto_loader", "follow_links")
"""Settings of messages in files. The limits of files are not among them: a dump for `seed` has them too."""

_ONE_OF_TOPICS = "write exactly one of `topics:` and `topic_pattern:`"
_BROKER = re.compile(r"\S+:[0-9]{1,5}", re.ASCII)
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

    bootstrap_servers: str = Field(min_length=1, description="The brokers: host:port, with commas between.")
    topics: tuple[str, ...] | None = Field(
        default=None, min_length=1, description="The names of the topics; instead of topic_pattern."
    )
    topic_pattern: str | None = Field(
        default=None,
        min_length=1,
        description="A Java regular expression for the whole names of topics; instead of topics.",
    )

    @field_validator("bootstrap_servers")
    @classmethod
    def _refuse_no_address(cls, servers: str) -> str:
        if not all(_BROKER.fullmatch(server.strip()) for server in servers.split(",")):
            raise value_error("write host:port for each broker, with commas between")
        return servers

    @field_validator("topic_pattern")
    @classmethod
    def _refuse_broken(cls, pattern: str | None) -> str | None:
        if pattern is not None:
            check_expression(pattern)
        return pattern

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
    format: str = Field(description="The format of the messages: a name of `mainstem formats`.")
    files: Place | None = Field(
        default=None, min_length=1, description="The folder in which files with messages land."
    )
    kafka: Kafka | None = Field(default=None, description="The Kafka topics that hold the messages.")
    table: Place | None = Field(
        default=None,
        min_length=1,
        description="A table of messages: a path or URL of a Delta table, or a name in the catalog. Its rows "
        "may only be appended, or deleted by whole partitions.",
    )
    columns: dict[MessageColumn, str] = Field(
        default_factory=dict,
        description="The columns of a table of messages that hold a part of the message under another name.",
    )
    layout: Layout = Field(
        default=Layout.LINES,
        description="How files hold messages: `lines` has one value a line, `kcat` one JSON object a line "
        "as `kcat -J` prints it.",
    )
    auto_loader: StrictBool = Field(
        default=True,
        description="On Databricks: Auto Loader finds new files in cloud storage; false lists folders.",
    )
    follow_links: StrictBool = Field(
        default=False, description="Whether links that lead out of the folder are read."
    )
    max_gzip_ratio: StrictInt = Field(
        default=200, ge=1, description="A gzip file that holds more than this many times its size is refused."
    )
    max_file_messages: StrictInt = Field(
        default=50_000_000, ge=1, description="A file with more messages is refused."
    )
    timezone: Zone = Field(default="UTC", description="The IANA time zone of wall times that carry no zone.")
    pairing_timeout: Duration = Field(
        default=timedelta(minutes=10),
        description="How long half of an update waits for the other half, in the time of the source.",
        json_schema_extra={"default": "10 minutes"},
    )
    epoch: StrictInt = Field(
        default=1,
        ge=1,
        description="Raise it by one when the positions of the source start again: a new server or topic.",
    )
    order: Order | None = Field(
        default=None,
        description="What orders changes whose positions are only times. `partition`: their place in the "
        "partition (the default, but for files of layout lines). `time`: their times.",
    )
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


class _NoSettings(BaseModel):
    """The settings of a format that is not known."""


COMMON_KEYS = frozenset(Source.model_fields) - {"name", "options"}


def read_sources(
    document: Document, formats: Mapping[str, type[BaseModel]], faults: Faults
) -> dict[str, Source]:
    """The sources of a document with a mapping of them, checked with the settings of their formats.

    Without those that have faults in their common settings, which are added to `faults`.
    """
    resolved = document.resolved["sources"]
    assert isinstance(resolved, dict)
    read = {
        name: _read_source(name, content, document, formats, faults) for name, content in resolved.items()
    }
    return {name: source for name, source in read.items() if source is not None}


def _read_source(
    name: object,
    content: object,
    document: Document,
    formats: Mapping[str, type[BaseModel]],
    faults: Faults,
) -> Source | None:
    if not isinstance(name, str) or not _SOURCE_NAME.fullmatch(name):
        error = ConfigurationError(
            "CONFIG_BAD_VALUE",
            found=f"the source name '{quoted_key(name, ('sources',))}'",
            where=document.where(("sources",)),
            action="begin with a letter or digit, and use only letters, digits, '_' and '-', "
            "a hundred at most",
        )
        faults.add(("sources", str(name)), error)
        return None
    at = ("sources", name)
    if not isinstance(content, dict):
        error = ConfigurationError(
            "CONFIG_WRONG_TYPE",
            found=document.quoted(at),
            where=document.where(at),
            action="write `format:` and one of `files:`, `kafka:`, `table:` below it",
        )
        faults.add(at, error)
        return None
    model = _format_model(content.get("format"), document, at, formats, faults)
    models = tuple(formats.values()) if model is None else (model,)
    settings = _own_settings(content, models)
    for key in settings:
        if not any(key in each.model_fields for each in models):
            keys = (*at, str(key))
            known = COMMON_KEYS.union(*(each.model_fields for each in models))
            faults.add(keys, unknown_key(document, keys, known))
    common = {key: value for key, value in content.items() if key not in settings}
    options = _read_options(settings, model, document, at, faults)
    if content.get("format") is None and not faults.is_misspelt((*at, "format")):
        faults.add((*at, "format"), _without_format(document, at, formats))
    _check_kafka_keys(common.get("kafka"), document, at, faults)
    source = None
    try:
        source = Source.model_validate({**common, "name": name, "options": options})
    except ValidationError as error:
        add_model_faults(error, document, Source, faults, at)
    _check_place(common, document, at, faults)
    return (
        source.model_copy(update=_absolute_places(source, document.path.parent))
        if source is not None
        else None
    )


def _format_model(
    name: object,
    document: Document,
    at: tuple[str, str],
    formats: Mapping[str, type[BaseModel]],
    faults: Faults,
) -> type[BaseModel] | None:
    """The model of a format's settings; None for a name that is no format, or is missing."""
    if isinstance(name, str) and name in formats:
        return formats[name]
    if name is not None:
        keys = (*at, "format")
        error = ConfigurationError(
            "CONFIG_UNKNOWN_FORMAT",
            found=f"the format {document.quoted(keys)}",
            where=document.where(keys),
            action=suggested(str(name), formats),
        )
        faults.add(keys, error)
    return None


def _own_settings(content: Mapping[str, object], models: Sequence[type[BaseModel]]) -> dict[str, object]:
    """What a source writes for its format, and unknown keys.

    A format may have a setting with the name of a place (`table`): it is meant if another place is written
    beside it.
    """
    shared = {
        place
        for place in PLACES
        if any(place in model.model_fields for model in models)
        and any(key in content for key in PLACES if key != place)
    }
    return {key: value for key, value in content.items() if key not in COMMON_KEYS or key in shared}


def _read_options(
    settings: Mapping[str, object],
    model: type[BaseModel] | None,
    document: Document,
    at: tuple[str, str],
    faults: Faults,
) -> BaseModel:
    """The settings of a format; empty ones where they have faults, or the format is not known."""
    if model is not None:
        try:
            return model.model_validate({k: v for k, v in settings.items() if k in model.model_fields})
        except ValidationError as error:
            add_model_faults(error, document, model, faults, at)
    return _NoSettings()


def _check_kafka_keys(kafka: object, document: Document, at: tuple[str, str], faults: Faults) -> None:
    """Refuse misspelt keys, which Spark would ignore, and Spark's names for what Mainstem sets."""
    own = Kafka.model_fields
    for key, value in kafka.items() if isinstance(kafka, dict) else ():
        keys = (*at, "kafka", str(key))
        if str(key).lower() == "includeheaders" and str(value).lower() != "true":
            action = "leave it out: the headers of messages are always read"
            faults.add(
                keys, _bad_value(document, keys, f"'{document.key(keys)}' with a value but true", action)
            )
        if key in own or is_reader_option(str(key)):
            continue
        error = ConfigurationError(
            "CONFIG_UNKNOWN_KEY",
            found=f"the unknown key '{document.key(keys)}'",
            where=document.where(keys),
            action=instead_of(document.key(keys), own),
        )
        faults.add(keys, error)


def _without_format(
    document: Document, at: tuple[str, str], formats: Mapping[str, type[BaseModel]]
) -> ConfigurationError:
    return ConfigurationError(
        "CONFIG_MISSING_KEY",
        found="no key 'format'",
        where=document.where((*at, "format")),
        action=f"write `format:` with one of {', '.join(sorted(formats))}",
    )


def _check_place(
    content: Mapping[str, object], document: Document, at: tuple[str, str], faults: Faults
) -> None:
    kafka = content.get("kafka")
    if isinstance(kafka, dict) and not faults.covers((*at, "kafka")):
        both = kafka.get("topics") is not None
        if both == (kafka.get("topic_pattern") is not None):
            found = "'topics' and 'topic_pattern'" if both else "neither 'topics' nor 'topic_pattern'"
            error = _place_error(document, (*at, "kafka"), found, _ONE_OF_TOPICS)
            faults.add((*at, "kafka"), error)
    if content.get("columns") and content.get("table") is None:
        keys = (*at, "columns")
        action = "leave it out: only a table of messages has columns"
        faults.add(keys, _place_error(document, keys, "'columns' without 'table'", action))
    written = [key for key in PLACES if content.get(key) is not None]
    for key in _OF_FILES if written and "files" not in written else ():
        if key in content:
            action = "leave it out: it has a meaning for files alone"
            faults.add((*at, key), _place_error(document, (*at, key), f"'{key}' without 'files'", action))
    if len(written) > 1 or not (written or any(faults.is_misspelt((*at, place)) for place in PLACES)):
        found = " and ".join(f"'{key}'" for key in written) or "none of 'files', 'kafka', 'table'"
        action = "write exactly one of `files:`, `kafka:`, `table:`"
        faults.add(at, _place_error(document, at, found, action))


def _bad_value(document: Document, keys: KeyPath, found: str, action: str) -> ConfigurationError:
    return ConfigurationError("CONFIG_BAD_VALUE", found=found, where=document.where(keys), action=action)


def _place_error(document: Document, keys: KeyPath, found: str, action: str) -> ConfigurationError:
    return ConfigurationError("CONFIG_SOURCE_PLACE", found=found, where=document.where(keys), action=action)


def _absolute_places(source: Source, folder: Path) -> dict[str, object]:
    places: dict[str, object] = {}
    if source.files is not None:
        places["files"] = absolute_place(source.files, folder)
    if source.table is not None and "/" in source.table:
        places["table"] = absolute_place(source.table, folder)
    return places
