"""The settings of columns by which the rows of tables were read, to notice when others are configured. Pure.

A run notes the settings before it reads a message by them. A table whose settings have changed since then is
read as before, until all its messages are decoded again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from framework.config.tables import ColumnRule, TableRule, TableRules

Table = tuple[str, str | None, str | None, str]
"""Source, database, schema and name of a table."""
Columns = Mapping[str, ColumnRule]
_RULE = frozenset({"match", "source", "columns"})
_READ_FIELDS = frozenset({"decode", "encoding", "unsigned"})
_NOTHING = (None, None, False)


@dataclass(frozen=True, slots=True)
class OtherReading:
    """A table whose rows were read by other settings of its columns than the configuration has.

    `columns` are the settings of its rows, by which new messages are read, too. Unless `is_kept`, its
    messages are being decoded again, and some rows may be read by the configured settings already. `since`
    is the newest commit of the changes before that.
    """

    table: Table
    columns: Columns
    is_kept: bool = True
    since: str | None = None


@dataclass(frozen=True, slots=True)
class Readings:
    """The rules that say how the columns of tables are read, and the tables that are not yet read so."""

    rules: tuple[TableRule, ...] = ()
    others: tuple[OtherReading, ...] = ()

    @property
    def are_configured(self) -> bool:
        """Whether the rules say of any column how it is read."""
        return bool(_reading_rules(self.rules))

    def facts(self) -> dict[str, Any]:
        """The same as JSON has it; `readings_in` reads it."""
        others = [[list(other.table), _texts(other.columns), other.is_kept] for other in self.others]
        rules = [rule.model_dump(mode="json", include=set(_RULE), exclude_unset=True) for rule in self.rules]
        begun = [[list(other.table), other.since] for other in self.others if other.since is not None]
        return {"rules": rules, "others": others} | ({"begun": begun} if begun else {})

    def under(
        self, rules: Sequence[TableRule], tables: Callable[[], Mapping[Table, Collection[str]]]
    ) -> Readings:
        """The readings once these rules are configured.

        Args:
            rules: The rules of the configuration.
            tables: Gives all tables that have rows, each with its columns.
        """
        wanted = readings_of(rules)
        before, now = TableRules(self.rules), TableRules(wanted.rules)
        known = {other.table: other for other in self.others}
        found = {
            table: other
            for table, other in known.items()
            if not other.is_kept or differing(other.columns, now.settings(*table).columns)
        }
        if _reading_rules(wanted.rules) != _reading_rules(self.rules):
            for table, columns in tables().items():
                former = before.settings(*table).columns
                if table not in known and differing(former, now.settings(*table).columns) & set(columns):
                    found[table] = OtherReading(table, former)
        return replace(wanted, others=tuple(found[table] for table in sorted(found, key=repr)))

    def begun(self, tables: Iterable[Table], commit: str | None) -> Readings:
        """The readings while the messages of these tables are decoded again, from this commit on."""
        chosen = set(tables)
        others = (
            replace(o, is_kept=False, since=commit) if o.table in chosen and o.is_kept else o
            for o in self.others
        )
        return replace(self, others=tuple(others))

    def kept(self, tables: Iterable[Table]) -> Readings:
        """The same, but of these tables no row is read otherwise than before."""
        chosen = set(tables)
        others = (replace(o, is_kept=True, since=None) if o.table in chosen else o for o in self.others)
        return replace(self, others=tuple(others))

    def settled(self, newest: Callable[[], str | None]) -> Readings:
        """The readings when nothing is being decoded again.

        A decoding that was cut short before it replaced a row has not begun. `newest` gives the newest commit
        of the changes.
        """
        begun = [other for other in self.others if other.since is not None]
        commit = newest() if begun else None
        return self.kept(other.table for other in begun if other.since == commit)

    def without(self, tables: Iterable[Table]) -> Readings:
        """The readings after the messages of these tables were decoded again."""
        done = set(tables)
        return replace(self, others=tuple(other for other in self.others if other.table not in done))

    def former(self, apart: Iterable[Table] = ()) -> Mapping[Table, Columns]:
        """The settings of tables whose new messages are read as before, without some."""
        now, done = TableRules(self.rules), set(apart)
        return {
            other.table: _read_as(other.columns, now.settings(*other.table).columns)
            for other in self.others
            if other.table not in done
        }


def _reading_rules(rules: Iterable[TableRule]) -> list[tuple[object, ...]]:
    """What rules write of how columns are read; they decide field by field."""
    found = [(rule.match, rule.source, _read_fields(rule.columns)) for rule in rules]
    return [rule for rule in found if rule[-1]]


def _read_fields(columns: Columns) -> dict[str, dict[str, Any]]:
    fields = {
        name: {field: getattr(rule, field) for field in _READ_FIELDS & rule.model_fields_set}
        for name, rule in columns.items()
    }
    return {name: written for name, written in fields.items() if written}


def readings_of(rules: Iterable[TableRule]) -> Readings:
    """The readings of a pipeline in which all tables are read by these rules."""
    return Readings(tuple(rule for rule in rules if "columns" in rule.model_fields_set))


def noted_readings(rules: Iterable[TableRule], facts: Mapping[str, Any] | None) -> Readings:
    """The readings among noted facts; without them, as earlier releases note none, those of these rules."""
    told = None if facts is None else facts.get("readings")
    return readings_of(rules) if told is None else readings_in(told)


def readings_in(facts: Mapping[str, Any]) -> Readings:
    """The readings that `Readings.facts` has put down, without what only a newer release knows."""
    begun = {tuple(table): since for table, since in facts.get("begun", ())}
    others = (
        OtherReading(
            (table[0], table[1], table[2], table[3]), _columns(columns), is_kept, begun.get(tuple(table))
        )
        for table, columns, is_kept in facts["others"]
    )
    rules = (
        TableRule.model_validate(
            {name: rule[name] for name in _RULE & rule.keys() - {"columns"}}
            | {"columns": _columns(rule["columns"])}
        )
        for rule in facts["rules"]
    )
    return Readings(tuple(rules), tuple(others))


def differing(before: Columns, now: Columns) -> set[str]:
    """The columns that are read otherwise by these settings."""
    one, other = _reading(before), _reading(now)
    return {name for name in (*one, *other) if one.get(name, _NOTHING) != other.get(name, _NOTHING)}


def _reading(columns: Columns) -> Mapping[str, tuple[str | None, str | None, bool]]:
    """What decides how the values of each column are read: with a codec, nothing else does."""
    return {
        name: (c.decode, None, False) if c.decode else (None, c.encoding, bool(c.unsigned))
        for name, c in columns.items()
    }


def _read_as(before: Columns, now: Columns) -> Columns:
    """The settings of now, with the way of reading of before."""
    names = dict.fromkeys((*now, *before))
    return {name: _joined(before.get(name, ColumnRule()), now.get(name, ColumnRule())) for name in names}


def _joined(before: ColumnRule, now: ColumnRule) -> ColumnRule:
    return before.model_copy(update={"type": now.type})


def _texts(columns: Columns) -> dict[str, Any]:
    return {name: rule.model_dump(mode="json", exclude_unset=True) for name, rule in columns.items()}


def _columns(texts: Mapping[str, Any]) -> Columns:
    known = ColumnRule.model_fields
    return {
        name: ColumnRule.model_validate({key: text[key] for key in text if key in known})
        for name, text in texts.items()
    }
