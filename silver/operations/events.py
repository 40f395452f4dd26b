"""What a decoder says of messages, for people who compare it with the vendor's text. Needs no session."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from msgspec import structs

from framework.contracts.events import Control, ControlKind
from framework.contracts.file_messages import FiledMessage
from framework.contracts.messages import RawMessage
from framework.contracts.quarantine_reasons import Malformed, Reason
from framework.pipeline.layer import DecodingRequest
from silver.changes.source_plans import source_plans
from silver.decoding.event_json import event_members
from silver.decoding.format import Context, Format
from silver.formats import FORMATS


def describe_events(messages: Iterable[FiledMessage], request: DecodingRequest) -> Iterator[dict[str, Any]]:
    """For each message its `file`, its `line`, and what the decoder of the requested format says of it.

    This is either `events`, a list, or `malformed` with the reason and `detail`. A line without a message has
    `fault` instead. Each message is decoded alone: halves of updates are not paired, and what other messages
    of the feed say about a table or about the source's way to write values is unknown.
    """
    fmt, context = FORMATS[request.format], _context(request)
    for filed in messages:
        line = {"file": filed.file, "line": filed.line}
        if filed.fault is not None:
            yield {**line, "fault": filed.fault}
        else:
            yield {**line, **_answer(structs.replace(filed.message, source=context.source), fmt, context)}


def _context(request: DecodingRequest) -> Context:
    if request.config is None:
        context = Context(request.source, FORMATS[request.format].options(), "UTC", lambda *_: None)
    else:
        context = source_plans(request.config, FORMATS)[request.source].context
    return replace(context, keys_for=lambda *_: request.keys) if request.keys else context


def _answer(message: RawMessage, fmt: Format, context: Context) -> dict[str, Any]:
    try:
        return {"events": [event_members(event) for event in fmt.decode(message, context)]}
    except Malformed as error:
        if error.reason is Reason.EMPTY and message.value is None and message.key is not None:
            return {"events": [event_members(Control(ControlKind.TOMBSTONE, "tombstone"))]}
        return {"malformed": str(error.reason), "detail": error.detail}
    except Exception as error:  # as in a run, an error of a decoder concerns one message
        return {"malformed": str(Reason.DECODER_ERROR), "detail": f"{type(error).__name__}: {error}"}
