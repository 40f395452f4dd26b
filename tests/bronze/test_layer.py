"""The notes of a run about its sources."""

from __future__ import annotations

from bronze.job import SourceResult
from bronze.layer import notes_of
from framework.config.sources import Kafka, Source
from framework.errors import MainstemError
from tests.bronze.conftest import NoOptions


def source(name: str, **place: object) -> Source:
    return Source.model_validate({"name": name, "format": "canal", "options": NoOptions(), **place})


SOURCES = {
    "a": source("a", files="/in/a"),
    "b": source("b", kafka={"bootstrap_servers": "secret:9092", "topics": ["t1", "t2"]}),
    "c": source("c", kafka=Kafka(bootstrap_servers="secret:9092", topic_pattern="t.*")),
    "d": source("d", table="main.raw.messages"),
}
STOPPED = MainstemError("X", found="y", where="z", action="w")


def test_sources_that_have_never_given_a_message_are_named() -> None:
    results = [SourceResult(name) for name in "abc"] + [SourceResult("d", error=STOPPED)]
    assert list(notes_of(results, SOURCES, is_empty=True)) == [
        "source a: nothing has come yet from /in/a",
        "source b: nothing has come yet from topic t1, t2",
        "source c: nothing has come yet from topics like t.*",
    ]
    assert list(notes_of([SourceResult("d")], SOURCES, is_empty=True)) == [
        "source d: nothing has come yet from table main.raw.messages"
    ]
    assert list(notes_of(results, SOURCES, is_empty=False)) == []


def test_files_that_are_still_written_are_named() -> None:
    waiting = [SourceResult("a", waiting=("x\n.jsonl",)), SourceResult("b", waiting=("y", "z", "w"))]
    assert list(notes_of(waiting, SOURCES, is_empty=True)) == [
        "source a: x⏎.jsonl not complete yet, left for the next run",
        "source b: y and 2 more not complete yet, left for the next run",
    ]
