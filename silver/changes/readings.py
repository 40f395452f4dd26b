"""The settings of columns by which the rows of tables were read, to notice when others are configured. Pure.

A run notes the settings before it reads a message by them. A table whose settings have changed since then is
decoded again, or goes on being read as before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from framework.config.tables import ColumnRule, TableRule, TableRules

Table = tuple[str, str | None, str | None, str]
"""Source, database, schema and name of a table."""
Columns = Mapping[str, ColumnRule]


@dataclass(frozen=True, slots=True)
class OtherReading:
    """A table whose rows were read by other settings of its columns than the configuration has.

    `columns` are the settings of its rows, by which new messages are read, too, until all are decoded
    again. Where that was refused (`is_kept`), no row is read otherwise.
    """

    table: Table
    columns: Columns
    is_kept: bool = False


@dataclass(frozen=True, slots=True)
class Readings:
    """The rules that say how the columns of tables are read, and the tables that are not yet read so."""

    rules: tuple[TableRule, ...] = ()
    others: tuple[OtherReading, ...] = ()

    def facts(self) -> dict[str, Any]:
        """The same as JSON has it; `readings_in` reads it."""
        others = [[list(other.table), _texts(other.columns), other.is_kept] for other in self.others]
        fields = {"match", "source", "columns"}
        rules = [rule.model_dump(mode="json", include=fields, exclude_unset=True) for rule in self.rules]
        return {"rules": rules, "others": others}

    def under(self, rules: Sequence[TableRule], tables: Callable[[], Iterable[Table]]) -> Readings:
        """The readings once these rules are configured; `tables` gives all tables that have rows."""
        wanted = readings_of(rules)
        if wanted.facts()["rules"] == self.facts()["rules"]:
            return self
        before, now = TableRules(self.rules), TableRules(wanted.rules)
        known = {other.table: other for other in self.others}
        found = []
        for table in sorted({*tables(), *known}, key=repr):
            other = known.get(table) or OtherReading(table, before.settings(*table).columns)
            is_pending = table in known and not other.is_kept
            if is_pending or differing(other.columns, now.settings(*table).columns):
                found.append(other)
        return replace(wanted, others=tuple(found))

    def with_kept(self, tables: Iterable[Table], *, is_kept: bool) -> Readings:
        """The same, but of these tables no row is read otherwise than before, or some may be."""
        chosen = set(tables)
        others = (replace(o, is_kept=is_kept) if o.table in chosen else o for o in self.others)
        return replace(self, others=tuple(others))

    def without(self, tables: Iterable[Table]) -> Readings:
        """The readings after the messages of these tables were decoded again."""
        done = set(tables)
        return replace(self, others=tuple(other for other in self.others if other.table not in done))

    def former(self, apart: Iterable[Table] = ()) -> Mapping[Table, Columns]:
        """The settings of tables whose new messages are read as before, without some."""
        done = set(apart)
        return {other.table: other.columns for other in self.others if other.table not in done}


def readings_of(rules: Iterable[TableRule]) -> Readings:
    """The readings of a pipeline in which all tables are read by these rules."""
    return Readings(tuple(rule for rule in rules if "columns" in rule.model_fields_set))


def readings_in(facts: Mapping[str, Any]) -> Readings:
    """The readings that `Readings.facts` has put down."""
    others = (
        OtherReading((table[0], table[1], table[2], table[3]), _columns(columns), is_kept)
        for table, columns, is_kept in facts["others"]
    )
    return Readings(tuple(TableRule.model_validate(rule) for rule in facts["rules"]), tuple(others))


def differing(before: Columns, now: Columns) -> Mapping[str, bool]:
    """The columns that are read otherwise by these settings, and whether that is for their types alone."""
    one, other = _reading(before), _reading(now)
    nothing = (None, None, None, False)
    pairs = {name: (one.get(name, nothing), other.get(name, nothing)) for name in sorted({*one, *other})}
    return {name: a[1:] == b[1:] for name, (a, b) in pairs.items() if a != b}


def _reading(columns: Columns) -> Mapping[str, tuple[str | None, str | None, str | None, bool]]:
    """What decides how the values of each column are read: with a codec, nothing else does."""
    return {
        name: (None, c.decode, None, False) if c.decode else (c.type, None, c.encoding, bool(c.unsigned))
        for name, c in columns.items()
    }


def _texts(columns: Columns) -> dict[str, Any]:
    return {name: rule.model_dump(mode="json", exclude_unset=True) for name, rule in columns.items()}


def _columns(texts: Mapping[str, Any]) -> Columns:
    return {name: ColumnRule.model_validate(text) for name, text in texts.items()}
