"""Drafts a configuration for topics of a broker: a source for each format in a sample of their messages."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import takewhile
from typing import Any

from framework.config.drafting.template import (
    Draft,
    DraftSource,
    LeftOut,
    plain_name,
    unused_name,
    why_unread,
)
from framework.config.drafting.topics import TopicPlace
from framework.errors import MainstemError

DetectTopics = Callable[[Sequence[str] | None, str], Mapping[str, Any]]
"""The answer of `detect` for these of the sampled topics (None for all), as a source of this name."""


def draft_of_topics(place: TopicPlace, detect: DetectTopics) -> Draft:
    """A source for each format of the sampled topics; topics that fit no format are left out.

    Raises:
        MainstemError: NOTHING_RECOGNISED where no format reads any message.
    """
    answer = detect(None, "feed")
    formats = {entry["file"]: tuple(sorted(entry["formats"])) for entry in answer["files"]}
    groups: dict[tuple[str, ...], list[str]] = {}
    for topic, names in sorted(formats.items()):
        groups.setdefault(names, []).append(topic)
    unread = groups.pop((), [])
    left_out = [LeftOut(topic, why_unread(detect([topic], "feed"), "topic")) for topic in unread]
    if not groups:
        raise MainstemError(
            "NOTHING_RECOGNISED",
            found=f"no message that a format reads: {left_out[0].why}" if left_out else "no message",
            where=str(place),
            action="`mainstem detect` says why message by message; `mainstem formats` lists the formats",
        )
    is_whole = len(groups) == 1 and not left_out
    sources: list[DraftSource] = []
    for topics in groups.values():
        name = unused_name(_name_of(topics), {source.name for source in sources})
        written = place.written if is_whole else place.with_topics(topics)
        sources.append(DraftSource(name, None, detect(topics, name), written))
    return Draft(sources, left_out)


def _name_of(topics: Sequence[str]) -> str:
    """A name for the source of these topics: what their names have in common, in whole parts."""
    if len(topics) == 1:
        return plain_name(topics[0], "feed")
    parts = zip(*(topic.split(".") for topic in topics), strict=False)
    common = takewhile(lambda names: len(set(names)) == 1, parts)
    return plain_name("_".join(names[0] for names in common), "feed")
