"""The settings of columns by which the rows of tables were read, to notice when others are configured. Pure.

A run notes the settings before it reads a message by them. A table whose settings have changed since then is
read as before, until all its messages are decoded again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from framework.config.tables import ColumnRule, TableRule, TableRules, matches

Table = tuple[str, str | None, str | None, str]
"""Source, database, schema and name of a table."""
Columns = Mapping[str, ColumnRule]
_RULE = frozenset({"match", "source", "columns"})
_READ_FIELDS = frozenset({"decode", "encoding", "unsigned"})
_WILDCARDS = frozenset("*?[")
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


class Former:
    """The settings by which tables are read that are not read as configured; can be sent to another process.

    A table that is read as before may get another name, also within one batch. So a name that is not known
    is read as before, too, where one rule is for both: for the name and for a table that is read as before.
    """

    __slots__ = ("_done", "_kept", "_known", "_patterns", "_readings", "_rules", "sources")

    def __init__(self, readings: Readings, done: frozenset[Table] = frozenset()) -> None:
        self._readings, self._done = readings, done
        self._rules = (TableRules(readings.before or ()), TableRules(readings.rules))
        self._kept = {other.table: other.columns for other in readings.others}
        self._known: dict[Table, Columns | None] = {}
        self._patterns: dict[str, list[str]] = {}
        self.sources = frozenset(other.table[0] for other in readings.others)

    def __reduce__(self) -> tuple[object, ...]:
        return Former, (self._readings, self._done)

    def columns(self, table: Table) -> Columns | None:
        """The settings of the columns of a table; None where it is read as configured."""
        if table not in self._known:
            self._known[table] = self._found(table)
        return self._known[table]

    def _found(self, table: Table) -> Columns | None:
        if table in self._done:
            return None
        (before, now), kept = self._rules, self._kept.get(table)
        if kept is None and table not in self._readings.read and self._has_rule_of_others(table):
            kept = before.settings(*table).columns
        return None if kept is None else _read_as(kept, now.settings(*table).columns)

    def _has_rule_of_others(self, table: Table) -> bool:
        source = table[0]
        if self._readings.before is None or source not in self.sources:
            return False
        if source not in self._patterns:
            self._patterns[source] = list(self._patterns_of_others(source))
        return any(matches(pattern, *table[1:]) for pattern in self._patterns[source])

    def _patterns_of_others(self, source: str) -> Iterator[str]:
        """The patterns that name several tables, among them one of the source that is read as before."""
        names = [table[1:] for table in self._kept if table[0] == source]
        for rule in (*(self._readings.before or ()), *self._readings.rules):
            is_for_several = rule.source in (None, source) and not _WILDCARDS.isdisjoint(rule.match)
            if is_for_several and any(matches(rule.match, *name) for name in names):
                yield rule.match


@dataclass(frozen=True, slots=True)
class Readings:
    """The rules that say how the columns of tables are read, and the tables that are not yet read so.

    While there are `others`, `before` are the rules that were in force before them (None where an earlier
    release has noted the readings), and `read` the tables whose rows are all read as configured, though these
    rules say something else.
    """

    rules: tuple[TableRule, ...] = ()
    others: tuple[OtherReading, ...] = ()
    before: tuple[TableRule, ...] | None = None
    read: frozenset[Table] = frozenset()

    @property
    def are_configured(self) -> bool:
        """Whether the rules say of any column how it is read."""
        return bool(_reading_rules(self.rules))

    def facts(self) -> dict[str, Any]:
        """The same as JSON has it; `readings_in` reads it."""
        others = [[list(other.table), _texts(other.columns), other.is_kept] for other in self.others]
        more: dict[str, Any] = {
            "begun": [[list(other.table), other.since] for other in self.others if other.since is not None],
            "before": None if self.before is None else {"rules": _rule_facts(self.before)},
            "read": [list(table) for table in sorted(self.read, key=repr)],
        }
        found = {name: each for name, each in more.items() if each}
        return {"rules": _rule_facts(self.rules), "others": others} | found

    def under(
        self, rules: Sequence[TableRule], tables: Callable[[], Mapping[Table, Collection[str]]]
    ) -> Readings:
        """The readings once these rules are configured.

        Args:
            rules: The rules of the configuration.
            tables: Gives all tables that have rows, each with its columns.
        """
        wanted = readings_of(rules)
        now = TableRules(wanted.rules)
        known = {other.table: other for other in self.others}
        found = {
            table: other
            for table, other in known.items()
            if not other.is_kept or differing(other.columns, now.settings(*table).columns)
        }
        before, read = self.before, self.read
        if _reading_rules(wanted.rules) != _reading_rules(self.rules) or (
            before is not None and len(found) < len(known)
        ):
            held = {table: columns for table, columns in tables().items() if table not in known}
            found |= self._read_otherwise(held, now)
            before = self.rules if before is None else before
            read = frozenset(_of_other_settings(held.keys() - found.keys(), held, TableRules(before), now))
        return replace(wanted, before=before, read=read)._with_others(found.values())

    def _read_otherwise(
        self, tables: Mapping[Table, Collection[str]], now: TableRules
    ) -> dict[Table, OtherReading]:
        """Of tables and their columns those whose rows are read otherwise than these rules say."""
        rules, former = TableRules(self.rules), self.former()
        found = {}
        for table, columns in tables.items():
            kept = former.columns(table)
            reading = rules.settings(*table).columns if kept is None else kept
            if differing(reading, now.settings(*table).columns) & set(columns):
                found[table] = OtherReading(table, reading)
        return found

    def _with_others(self, others: Iterable[OtherReading]) -> Readings:
        """The same with these other readings; without one, all tables are read as configured."""
        found = tuple(sorted(others, key=lambda other: repr(other.table)))
        return replace(self, others=found) if found else Readings(self.rules)

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

    def without(
        self, tables: Iterable[Table], known: Callable[[], Mapping[Table, Collection[str]]]
    ) -> Readings:
        """The readings after the messages of these tables were decoded again.

        Others of new names that were read as before are told by themselves from now on. `known` gives all
        tables that have rows, each with its columns.
        """
        done = frozenset(tables)
        found = {other.table: other for other in self.others if other.table not in done}
        if self.before is not None and len(found) < len(self.others):
            told = done.union(other.table for other in self.others)
            held = {table: columns for table, columns in known().items() if table not in told}
            found |= self._read_otherwise(held, TableRules(self.rules))
        return replace(self, read=self.read | done)._with_others(found.values())

    def former(self, apart: Iterable[Table] = ()) -> Former:
        """The settings of tables whose new messages are read as before, without some."""
        return Former(self, frozenset(apart))


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
    read = ((table[0], table[1], table[2], table[3]) for table in facts.get("read", ()))
    before = _rules(facts["before"]["rules"]) if "before" in facts else None
    return Readings(_rules(facts["rules"]), tuple(others), before, frozenset(read))


def _rule_facts(rules: Iterable[TableRule]) -> list[dict[str, Any]]:
    return [rule.model_dump(mode="json", include=set(_RULE), exclude_unset=True) for rule in rules]


def _rules(facts: Iterable[Mapping[str, Any]]) -> tuple[TableRule, ...]:
    return tuple(
        TableRule.model_validate(
            {name: rule[name] for name in _RULE & rule.keys() - {"columns"}}
            | {"columns": _columns(rule["columns"])}
        )
        for rule in facts
    )


def _of_other_settings(
    tables: Iterable[Table], columns: Mapping[Table, Collection[str]], before: TableRules, now: TableRules
) -> Iterator[Table]:
    """The tables that have a column of which the rules say something else than those before them."""
    for table in tables:
        one, other = before.settings(*table).columns, now.settings(*table).columns
        if differing(one, other) & set(columns[table]):
            yield table


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
