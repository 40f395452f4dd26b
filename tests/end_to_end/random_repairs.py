"""Random repairs, maintenance and settings during a random feed: the tables end as they would without them.

A row that is forgotten is the exception: it is taken out of what is expected.
"""

from __future__ import annotations

import sys
from collections.abc import Container, Iterator, Mapping, Sequence
from contextlib import contextmanager
from random import Random
from unittest.mock import patch

from pyspark.sql import SparkSession

from framework.cli import main
from framework.pipeline.fault_injection import crash_point
from tests.end_to_end.random_feeds import Feed
from tests.end_to_end.random_settings import Settings, name_of
from tests.end_to_end.random_source import Key, RandomSource
from tests.end_to_end.random_statements import RandomTable
from tests.framework.demo.story import Change, Marker
from tests.logs import expire_logs

_EXPIRE = "expire the logs"
_REPAIRS = ("replay", "rebuild", "rebuild from bronze", "maintain", "run one table", _EXPIRE)
_LAST_VISIT = 12


class PowerCut(Exception):
    """What stands for the death of a process: nothing behind it is done."""


@contextmanager
def cut_at(visit: int) -> Iterator[None]:
    """Whatever runs meanwhile ends at this visit of a named crash point, whichever point that is."""
    left = visit

    def die(name: str) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            raise PowerCut(name)

    modules = [
        module for module in list(sys.modules.values()) if getattr(module, "crash_point", None) is crash_point
    ]
    patches = [patch.object(module, "crash_point", die) for module in modules]
    for each in patches:
        each.start()
    try:
        yield
    finally:
        for each in patches:
            each.stop()


class RandomRepairs:
    """The commands that a seed draws for a pipeline.

    One in three is interrupted, and the next one completes it. Where pipelines are small, what is given twice
    for that is given once.
    """

    def __init__(
        self,
        settings: Settings,
        feeds: Mapping[str, tuple[Feed, RandomSource]],
        seed: str,
        *,
        are_small: bool = False,
    ) -> None:
        self.settings, self.draw, self.are_small = settings, Random(f"{seed} repairs"), are_small
        self.tables = [
            (feed, source, table)
            for feed, source in feeds.values()
            for table in source.tables
            if not table.former
        ]
        self.forgotten: list[tuple[str, str, Key]] = []

    @property
    def present(self) -> Sequence[tuple[Feed, RandomSource, RandomTable]]:
        """The tables of the sources that the configuration names now."""
        return [place for place in self.tables if place[0].format != self.settings.absent]

    def repair(self, times: int, codes: tuple[int, ...] = (0,)) -> None:
        """Some commands that change no table; none where the configuration names no table's source now."""
        for _ in range(times if self.present else 0):
            name = name_of(self.draw.choice(self.present))
            commands = {
                "rebuild": ("rebuild", name),
                "rebuild from bronze": ("rebuild", name, "--from", "bronze"),
                "run one table": ("run", "--through", "gold", "--table", name),
            }
            kind = self.draw.choice(_REPAIRS)
            if kind == _EXPIRE:
                self._expire_logs(codes)
                continue
            self._do(*commands.get(kind, (kind,)), is_cut=self.draw.random() < 0.33, codes=codes)

    def _expire_logs(self, codes: tuple[int, ...]) -> None:
        """A month passes, in which the logs of all tables lose what every stream has read."""
        self._do("run", codes=codes)
        expire_logs(SparkSession.active(), self.settings.file.parent)

    def exclude(self, sources: Container[str]) -> None:
        """Leave a table of one of these sources out from now on, if they have one."""
        tables = [place for place in self.tables if place[0].format in sources]
        if tables:
            self.settings.excluded = name_of(self.draw.choice(tables))
            self.settings.write()

    def include(self) -> None:
        """Take the table in again: its messages are decoded again, perhaps at the second attempt."""
        name = self.settings.excluded
        if name is None:
            return
        self.settings.excluded = None
        self.settings.write()
        self.twice("rebuild", name, "--from", "bronze")

    def twice(self, *command: str) -> None:
        """A command, perhaps cut short and given again."""
        if self.draw.random() < 0.5 and not self.are_small:
            self._do(*command, is_cut=True)
        self._do(*command)

    def forget(self) -> None:
        """Forget a row whose key was its own all its life, and no longer expect it."""
        rows = [
            (feed, source, table, key)
            for feed, source, table in self.tables
            for key in _own_keys(source, table)
        ]
        if not rows:
            return
        feed, source, table, key = self.draw.choice(rows)
        values = [f"{name}={text}" for name, text in zip(table.keys, key, strict=True)]
        command = ("forget", name_of((feed, source, table)), *values)
        if self.draw.random() < 0.5:
            self._do(*command, is_cut=True)
            self._do("run", "--through", "gold")
        if (feed.format, table.name, key) not in self.forgotten:
            self._do(
                *command, codes=(0, 1)
            )  # 1: the run has finished what was cut short, and nothing is left
            self.forgotten.append((feed.format, table.name, key))
        del table.rows[key]

    def is_forgotten(self, change: Change) -> bool:
        """Whether a change is one of a forgotten row."""
        row = change.after or change.before or {}
        return (change.table.feed, change.table.name, change.table.key_of(row)) in self.forgotten

    def _do(self, *words: str, is_cut: bool = False, codes: tuple[int, ...] = (0,)) -> None:
        visit = self.draw.randint(1, _LAST_VISIT)
        print("command:", *words, f"cut at visit {visit}" if is_cut else "")
        if is_cut:
            with cut_at(visit):
                main([*words, "-c", str(self.settings.file)])
            return
        assert main([*words, "-c", str(self.settings.file)]) in codes


def _own_keys(source: RandomSource, table: RandomTable) -> list[Key]:
    """The keys of rows that no key change has affected.

    None where the table's key or life has started again.
    """
    statements = [
        logged.event.text
        for logged in source.logged
        if isinstance(logged.event, Marker) and logged.event.table.name == table.name
    ]
    if any(word in text for text in statements for word in ("DROP TABLE", "RENAME", "PRIMARY KEY")):
        return []
    moved = set()
    for change in source.changes():
        if change.table.name == table.name and change.before is not None and change.after is not None:
            one, other = change.table.key_of(change.before), change.table.key_of(change.after)
            moved |= {one, other} if one != other else set()
    return sorted((key for key in table.rows if key not in moved), key=repr)
