"""`mainstem detect`: names the format of a file or folder of messages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from framework.cli.options import Options
from framework.cli.progress import show_progress
from framework.cli.terminal import say, say_json
from framework.config.drafting.topics import TopicPlace, topic_place
from framework.contracts.file_messages import Sample
from framework.errors import ConfigurationError
from framework.naming import dotted_name
from framework.pipeline.layer import installed_layers
from framework.spark.session import close_session, open_session
from framework.text.formatting import quantity
from framework.text.tables import TextTable

_SHOWN_SKIPPED = 10
_ANY_SOURCE = "<source>"
"""Stands for the name of the source: the database of tables whose feed names none."""


def run(options: Options) -> int:
    """Print the format of files or topics with its evidence; returns 1 when no message fits a format."""
    place = topics_of(options)
    if (place is None) == (options.path is None):
        raise ConfigurationError(
            "WRONG_ARGUMENTS",
            found="no PATH, and no --kafka" if place is None else "a PATH beside --kafka",
            where="mainstem detect",
            action="name a file or folder, or a broker with `--kafka HOST:PORT --topic NAME`",
        )
    if place is None:
        answer = {"path": options.path, **detect_formats(Path(options.path), _ANY_SOURCE)}
    else:
        found = TopicMessages(place, is_json=options.json).detect(None, _ANY_SOURCE)
        answer = {"kafka": place.kafka.bootstrap_servers, "topics": list(place.names), **found}
    if options.json:
        say_json(answer)
    else:
        say(_lines(answer, options.path or str(place), "topic" if place else "file"))
    return 0 if answer["formats"] else 1


def detect_formats(path: Path, source: str = "feed") -> Mapping[str, Any]:
    """The formats of a file or folder of messages, as the feed of a source of this name.

    `is_sample` says whether only a part was read, as there is more than a sample of it. `file_count` is the
    number of files, also of those without a message; `skipped` names the entries that are not read, with the
    reasons.
    """
    layers = list(installed_layers())
    read_messages = next(layer.read_messages for layer in layers if layer.read_messages is not None)
    detect = next(layer.detect for layer in layers if layer.detect is not None)
    sample = Sample()
    found = detect(read_messages(path, sample), source)
    return {**found, **about_sample(sample)}


def about_sample(sample: Sample) -> dict[str, Any]:
    """What was read of a file or folder: whether only a part, how many files, and what is not read."""
    return {"is_sample": sample.is_cut, "file_count": sample.files, "skipped": list(sample.skipped)}


def topics_of(options: Options) -> TopicPlace | None:
    """The topics that `--kafka` and its options name; None without them.

    Raises:
        ConfigurationError: WRONG_ARGUMENTS where one of them is missing; and as `topic_place`.
    """
    if not options.kafka and not options.topic and not options.kafka_option:
        return None
    if not options.kafka or not options.topic:
        raise ConfigurationError(
            "WRONG_ARGUMENTS",
            found="--kafka without --topic" if options.kafka else "--topic or --kafka-option without --kafka",
            where="--kafka",
            action="write both: --kafka localhost:9092 --topic 'shop.*'",
        )
    return topic_place(options.kafka, options.topic, options.kafka_option or ())


@dataclass(frozen=True, slots=True)
class _Looking:
    """What a session needs to know of a command that has no pipeline."""

    pipeline: str = "detect"


class TopicMessages:
    """A sample of the messages of topics, which `detect` may be asked about several times."""

    def __init__(self, place: TopicPlace, *, is_json: bool) -> None:
        layers = list(installed_layers())
        read_topics = next(layer.read_topics for layer in layers if layer.read_topics is not None)
        self._detect = next(layer.detect for layer in layers if layer.detect is not None)
        self._sample = Sample()
        with show_progress(is_shown=not is_json) as progress:
            spark = open_session(_Looking(), kafka=True)
            progress.begin(f"sample of {place}")
            try:
                self._messages = list(read_topics(spark, place.kafka, self._sample))
            finally:
                close_session(spark)

    def detect(self, topics: Sequence[str] | None, source: str) -> Mapping[str, Any]:
        """The formats of the messages of these topics, as of `detect_formats`; None means all topics."""
        wanted = [message for message in self._messages if topics is None or message.file in topics]
        files = len({message.file for message in wanted})
        found = self._detect(wanted, source)
        return {**found, **about_sample(self._sample), "file_count": files}


def _lines(answer: Mapping[str, Any], place: str, noun: str) -> Iterator[str | TextTable]:
    if not answer["messages"]:
        yield f"{place}: {_why_empty(answer['file_count']) if noun == 'file' else 'no message'}"
        yield from (advised(cause) for cause in answer["advice"])
        yield from _skipped_lines(answer["skipped"])
        return
    layouts = ", ".join(f"{name} ({count:,})" for name, count in answer["layouts"].items())
    sizes = f"{quantity(len(answer['files']), noun)}, {quantity(answer['messages'], 'message')}"
    yield f"{place}: {sizes}" + (f", layout {layouts or 'unknown'}" if noun == "file" else "")
    if answer["is_sample"]:
        yield "this is a sample: there are more messages"
    yield from _skipped_lines(answer["skipped"])
    for found in answer["formats"]:
        yield from _format_lines(found)
    if answer["tombstones"]:
        yield ""
        tombstones = quantity(answer["tombstones"], "message")
        yield f"{tombstones} with a key and no value: tombstones, which all formats share"
    if answer["is_mixed"]:
        yield ""
        yield "the feed is mixed: give each format a source of its own"
        yield TextTable((noun, "formats"), [(f["file"], _counts(f["formats"])) for f in answer["files"]])
    for cause in answer["advice"]:
        yield ""
        yield advised(cause)
    if answer["unread_count"]:
        yield ""
        one = "line" if noun == "file" else "message"
        lines = quantity(answer["unread_count"], f"{one} fits", f"{one}s fit")
        yield f"{lines} no format: {_counts(answer['unread_reasons'])}"
        yield from _unread_lines(answer["unread"])
    if not answer["formats"]:
        for near in answer["nearest"][:3]:
            yield ""
            yield likeness(near)
        yield ""
        yield "no format reads any of it: `mainstem formats` lists those that are known"


def _skipped_lines(skipped: Sequence[str]) -> Iterator[str]:
    yield from (f"not read: {entry}" for entry in skipped[:_SHOWN_SKIPPED])
    if len(skipped) > _SHOWN_SKIPPED:
        yield f"not read: {quantity(len(skipped) - _SHOWN_SKIPPED, 'more entry', 'more entries')}"


def _why_empty(files: int) -> str:
    if files:
        return f"{quantity(files, 'file')} without a message"
    return "there is no file to read (files named `.…`, `_…` or `….tmp` are ignored)"


def advised(cause: Mapping[str, Any]) -> str:
    """One line about a reason why lines fit no format: where, how many, and what to do."""
    first, *more = cause["files"]
    others = (
        f" and {quantity(len(more), 'more file')}" if len(more) > 1 else f" and {more[0]}" if more else ""
    )
    return (
        f"{first}{others}: {quantity(cause['lines'], 'line')}: {cause['advice']}"
        if cause["lines"] > 1
        else f"{first}{others}: {cause['advice']}"
    )


def likeness(near: Mapping[str, Any]) -> str:
    """What lines that no format reads are similar to, and what they lack."""
    names = " or ".join((near["name"], *near["or"]))
    lines = quantity(near["lines"], "line")
    return f"looks like {names}; {near['detail'] or near['reason']} ({near['reason']}, {lines})"


def _unread_lines(lines: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """The first line of each complaint."""
    seen = set()
    for unread in lines:
        complaint = (unread["as"], unread["reason"], unread["detail"])
        if complaint not in seen:
            seen.add(complaint)
            seems = f" (as {unread['as']})" if unread["as"] else ""
            place = f"{unread['file']}:{unread['line']}"
            yield f"  {place}  {unread['reason']}{seems}  {unread['detail']}".rstrip()


def _format_lines(found: Mapping[str, Any]) -> Iterator[str | TextTable]:
    yield ""
    names = " or ".join((found["name"], *found["or"]))
    yield f"{names}: {quantity(found['messages'], 'message')}, confidence {found['confidence']:.2f}"
    for evidence in found["evidence"]:
        yield f"  because of {evidence}"
    for name, value in found["options"].items():
        yield f"  its columns show that a setting is missing: write `{name}: {value}` for the source"
    if found["control_events"]:
        yield f"  control events: {_counts(found['control_events'])}"
    if found["tables"]:
        tables = [dotted_name(t["database"], t["schema"], t["table"]) for t in found["tables"]]
        rows = [
            (name, ", ".join(t["keys"]) or "not in the feed", _counts(t["ops"]))
            for name, t in zip(tables, found["tables"], strict=True)
        ]
        yield TextTable(("table", "keys", "changes"), rows, indent=2)
        if any(t["database"] == _ANY_SOURCE for t in found["tables"]):
            yield (
                f"  {_ANY_SOURCE}: the feed names no database; the name of the source, or `database:` of the"
                " source, takes its place"
            )


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count:,} {name}" for name, count in counts.items()) or "none"
