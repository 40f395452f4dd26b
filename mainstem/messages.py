"""Configurations, formats, and the decoding of single messages. Needs no Spark."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import ValidationError

from framework.config import model
from framework.config.model import Config
from framework.config.value_types import check_zone
from framework.contracts.events import Control, RowChange
from framework.contracts.messages import RawMessage
from framework.contracts.quarantine_reasons import Malformed
from framework.errors import ConfigurationError, listed, suggested

if TYPE_CHECKING:
    from silver.changes.decode import SourcePlan


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a feed, as a broker delivers it.

    Attributes:
        value: The payload; None is a broker tombstone.
        key: The message's key, None where it has none.
        topic: The topic, from which some formats take names.
        headers: Names and values, in their order.
        timestamp: The broker's time in microseconds since the epoch, None where there is none.
    """

    value: bytes | str | None
    key: bytes | str | None = None
    topic: str = "topic"
    headers: tuple[tuple[str, bytes | None], ...] = ()
    timestamp: int | None = None


@dataclass(frozen=True, slots=True)
class DecodedMessage:
    """What Mainstem reads from one message.

    Attributes:
        events: The changes of rows and the control events, in their order; empty for a refused message.
        reason: Why the message would go to quarantine: a code of `silver/quarantine`, else None.
        detail: Which part of the message is wrong, without its value, or what to do; may be empty.
    """

    events: tuple[RowChange | Control, ...] = ()
    reason: str | None = None
    detail: str = ""


def load_config(path: str | os.PathLike[str] = "mainstem.yml") -> Config:
    """The configuration in a file, checked, with absolute paths and resolved references.

    Raises:
        ConfigurationError: The file is missing, or something in it is wrong.
    """
    from silver.formats import FORMATS

    return model.load_config(Path(path), formats={name: fmt.options for name, fmt in FORMATS.items()})


def formats() -> list[dict[str, str]]:
    """The formats that Mainstem reads: one row each, with the members that `formats --json` prints."""
    from silver.formats import format_rows

    return format_rows()


def decode(
    message: Message | bytes | str | None,
    format: str,
    *,
    keys: Sequence[str] | None = None,
    options: Mapping[str, object] | None = None,
    timezone: str = "UTC",
) -> DecodedMessage:
    """What a format reads from one message.

    Args:
        message: The message, or its value alone.
        format: The name of the format, as in a configuration.
        keys: The key columns, for feeds that do not name the key.
        options: The settings of the format, as a source of this format has them in a configuration.
        timezone: The zone of wall times that carry none.

    Raises:
        ConfigurationError: UNKNOWN_FORMAT, or CONFIG_BAD_VALUE for a setting that the format does not take.
    """
    from silver.changes.decode import SourcePlan
    from silver.changes.source_plans import MAX_MESSAGE_BYTES
    from silver.decoding.format import Context
    from silver.formats import FORMATS

    if format not in FORMATS:
        raise _refused("UNKNOWN_FORMAT", f"format {format!r}", suggested(format, FORMATS))
    model_of_options = FORMATS[format].options
    try:
        settings = model_of_options.model_validate(dict(options or {}))
        zone = check_zone(timezone)
    except ValidationError as error:
        first = error.errors()[0]
        found = f"options: {'.'.join(map(str, first['loc']))}: {first['msg']}"
        raise _refused(
            "CONFIG_BAD_VALUE", found, f"allowed: {listed(model_of_options.model_fields)}"
        ) from None
    except ValueError as error:
        raise _refused("CONFIG_BAD_VALUE", f"timezone: {error}", "name a zone, as Asia/Shanghai") from None
    key = tuple(keys) if keys else None
    context = Context("feed", settings, zone, lambda *_: key)
    return _read(message, SourcePlan(FORMATS[format], context, 1, lambda *_: False, MAX_MESSAGE_BYTES))


def decode_for_source(
    message: Message | bytes | str | None, config: Config | str | os.PathLike[str], source: str
) -> DecodedMessage:
    """What a run would read from one message of a source, with the settings of the configuration.

    Where a format learns from earlier messages how its source writes values or what its tables look like,
    this message is read as the first one.

    Raises:
        ConfigurationError: UNKNOWN_SOURCE, or the configuration is wrong.
    """
    from silver.changes.source_plans import source_plans
    from silver.formats import FORMATS

    checked = checked_config(config)
    if source not in checked.sources:
        raise ConfigurationError(
            "UNKNOWN_SOURCE",
            found=f"source {source!r}",
            where=f"pipeline {checked.pipeline}",
            action=suggested(source, checked.sources),
        )
    return _read(message, source_plans(checked, FORMATS)[source])


def _refused(condition: str, found: str, action: str) -> ConfigurationError:
    return ConfigurationError(condition, found=found, where="mainstem.decode", action=action)


def checked_config(config: Config | str | os.PathLike[str]) -> Config:
    """The configuration itself, or the one in the file of this path."""
    return config if isinstance(config, Config) else load_config(config)


def _read(message: Message | bytes | str | None, plan: SourcePlan) -> DecodedMessage:
    from silver.changes.decode import read_events

    whole = message if isinstance(message, Message) else Message(message)
    raw = RawMessage(
        plan.context.source,
        whole.topic,
        0,
        0,
        whole.timestamp,
        _bytes(whole.key),
        _bytes(whole.value),
        whole.headers,
    )
    found = read_events(raw, plan)
    refused = next((event for event in found if isinstance(event, Malformed)), None)
    if refused is not None:
        return DecodedMessage(reason=str(refused.reason), detail=refused.detail)
    return DecodedMessage(tuple(event for event in found if not isinstance(event, Malformed)))


def _bytes(text: bytes | str | None) -> bytes | None:
    return text.encode() if isinstance(text, str) else text
