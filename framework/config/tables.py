"""The `tables` part of the configuration: rules by name pattern, and the settings of one table."""

from __future__ import annotations

import fnmatch
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import lru_cache
from itertools import chain, zip_longest
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, StrictBool, WithJsonSchema, field_validator

from framework.config.value_types import CanonicalType, Codec, Pattern, ReplicaName, split_name
from framework.contracts.ddl_actions import TableName
from framework.errors import ConfigurationError, nearest
from framework.naming import present_parts

_PatternParts = tuple[re.Pattern[str], ...]
_Beginning = tuple[int, int, str]
"""How many parts a pattern has, the place of one of them, and its text up to the first wildcard."""
_MOST_COMPILED = 20_000
_WILDCARDS = frozenset("*?[")
_WILDCARD = re.compile(r"[*?\[]")
MOST_HINTS = 5
"""A hint compares a pattern with the names of all tables, which takes long where these are many."""
CHOOSE_KEY = "<choose>"
"""What `mainstem init` writes where the user must choose a key."""


class Deletes(StrEnum):
    """What a delete does to a replica."""

    HARD = "hard"
    SOFT = "soft"
    IGNORE = "ignore"


class SchemaPolicy(StrEnum):
    """What a change of the source's columns does to a replica."""

    LENIENT = "lenient"
    EVOLVE = "evolve"
    IGNORE = "ignore"
    FAIL = "fail"


class BadValues(StrEnum):
    """What a value that does not fit its column's type does."""

    NULL = "null"
    PARK = "park"


class Encoding(StrEnum):
    """How a feed writes a column's values: bytes and decimals as text, times as counts."""

    BASE64 = "base64"
    BASE64URL = "base64url"
    HEX = "hex"
    TEXT = "text"
    MILLISECONDS = "milliseconds"
    MICROSECONDS = "microseconds"
    NANOSECONDS = "nanoseconds"


class ColumnRule(BaseModel):
    """The settings of one column; None where the configuration has none."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    type: CanonicalType | None = Field(
        default=None,
        description="The type of the column, as Spark SQL writes it: `decimal(12,2)`. Where messages declare "
        "none, values are read as this type: change it, then `mainstem rebuild TABLE --from bronze`.",
    )
    decode: Codec | None = Field(
        default=None,
        description="Binary values are text in this encoding: `utf8`, `gbk`. For a table that has rows, a "
        "change holds from the next `mainstem rebuild TABLE --from bronze` on.",
    )
    encoding: Encoding | None = Field(
        default=None,
        description="How the feed writes the values of `type`, if it does not say so: bytes as base64, "
        "base64url or hex; numbers as base64 or text; times as milliseconds, microseconds or nanoseconds. "
        "For a table that has rows, a change holds from the next `mainstem rebuild TABLE --from bronze` on.",
    )
    unsigned: StrictBool | None = Field(
        default=None,
        description="Whether the numbers have no sign, for feeds that do not say so. For a table that has "
        "rows, a change holds from the next `mainstem rebuild TABLE --from bronze` on.",
    )


class History(BaseModel):
    """A history that gets a version only when one of the tracked columns changes."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    track: tuple[str, ...] = Field(min_length=1, description="The columns whose change makes a new version.")


class TableRule(BaseModel):
    """One entry of `tables`. Fields that it does not write keep the value of earlier entries."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    match: Pattern = Field(
        description="The tables: database.table or database.schema.table. `*` and `?` stay inside one part."
    )
    source: str | None = Field(
        default=None,
        min_length=1,
        description="The source whose tables these are; without it, the tables of every source. Two sources "
        "with tables of one name need it, with `replica`.",
    )
    history: StrictBool | History = Field(
        default=False, description="Whether to keep every version of each row in a second table."
    )
    keys: tuple[str, ...] | None = Field(
        default=None,
        min_length=1,
        description="The key columns, for feeds that do not name them. A correction also needs `mainstem "
        "rebuild TABLE --from bronze`: silver holds the key with each change.",
    )
    columns: dict[str, ColumnRule] = Field(
        default_factory=dict, description="Settings of columns, by their names."
    )
    deletes: Deletes = Field(
        default=Deletes.HARD,
        description="What a delete does: `hard` removes the row, `soft` keeps it and sets `_cdc_deleted`, "
        "`ignore` keeps it.",
    )
    schema_policy: SchemaPolicy = Field(
        default=SchemaPolicy.LENIENT,
        description="What schema changes do. `lenient`: add, widen and rename columns, keep dropped ones. "
        "`evolve`: the same, but drop dropped ones. `ignore`: keep the columns as they are, and "
        "tell which are left out. `fail`: park the table.",
    )
    replica: ReplicaName | None = Field(
        default=None, description="Another name for the replica: database.table or database.schema.table."
    )
    exclude: StrictBool = Field(
        default=False,
        description="Whether to leave the tables out of gold. Silver keeps no images of excluded rows: after "
        "`exclude` was taken off, `mainstem rebuild TABLE --from bronze` reads what came meanwhile.",
    )
    bad_values: Annotated[BadValues, WithJsonSchema({"enum": ["null", None, "park"]})] = Field(
        default=BadValues.NULL,
        description="What a value that does not fit its type does: `null` makes the cell null and lists it "
        "in ops/bad_values, `park` parks the table.",
    )

    @field_validator("bad_values", mode="before")
    @classmethod
    def _read_null(cls, value: object) -> object:
        return BadValues.NULL if value is None else value  # `bad_values: null` is YAML's null

    @field_validator("keys")
    @classmethod
    def _refuse_repeats(cls, keys: tuple[str, ...] | None) -> tuple[str, ...] | None:
        if CHOOSE_KEY in (keys or ()):
            raise ValueError(
                f"choose the key: write in place of {CHOOSE_KEY} the columns whose values the source keeps "
                "unique and never null, "
                "or leave `keys` out: the table is append-only then"
            )
        if keys is not None and len(set(keys)) < len(keys):
            raise ValueError("name each key column once")
        return keys


@dataclass(frozen=True, slots=True)
class TableSettings:
    """The settings of one table.

    `keys` is None where only the feed can name the key. `track` has the columns whose change adds a version
    to the history, None for all. `replica` is the dotted name that gold uses, None for the source's own.
    """

    keys: tuple[str, ...] | None = None
    columns: Mapping[str, ColumnRule] = field(default_factory=dict)
    history: bool = False
    track: tuple[str, ...] | None = None
    deletes: Deletes = Deletes.HARD
    schema_policy: SchemaPolicy = SchemaPolicy.LENIENT
    replica: str | None = None
    exclude: bool = False
    bad_values: BadValues = BadValues.NULL

    @property
    def replica_parts(self) -> tuple[str | None, str | None, str] | None:
        """The configured replica as database, schema and table, None for the source's own name."""
        if self.replica is None:
            return None
        parts = split_name(self.replica)
        return parts[0], parts[1] if len(parts) == 3 else None, parts[-1]


class Patterns:
    """Patterns of tables in their order, which may be many: few of them are tried with a table.

    Those without wildcards are looked up. Each other one is tried with the tables that have the beginning of
    one of its parts, up to the first wildcard: of the part whose beginning the fewest patterns have.
    """

    __slots__ = ("_longest", "_plain", "_wild")

    def __init__(self, patterns: Iterable[str]) -> None:
        self._plain: dict[tuple[str, ...], list[int]] = {}
        self._wild: dict[_Beginning, list[tuple[int, _PatternParts]]] = {}
        beginnings: dict[tuple[int, str], list[_Beginning]] = {}
        for number, pattern in enumerate(patterns):
            parts = _parts(pattern)
            if _WILDCARDS.isdisjoint(pattern):
                self._plain.setdefault(parts, []).append(number)
            else:
                texts = (_WILDCARD.split(part, maxsplit=1)[0] for part in parts)
                beginnings[number, pattern] = [(len(parts), at, text) for at, text in enumerate(texts)]
        times = Counter(chain.from_iterable(beginnings.values()))
        for (number, pattern), found in beginnings.items():
            rarest = min(found, key=lambda beginning: times[beginning])
            self._wild.setdefault(rarest, []).append((number, _compiled(pattern)))
        self._longest = max((len(text) for _, _, text in self._wild), default=0)

    def of(self, database: str | None, schema: str | None, table: str) -> list[int]:
        """The numbers of the patterns that match a table, in their order."""
        parts = present_parts(database, schema, table)
        found = [*self._plain.get(parts, ())]
        if self._wild:
            for at, part in enumerate(parts):
                for end in range(min(len(part), self._longest) + 1):  # a message may name a part of megabytes
                    near = self._wild.get((len(parts), at, part[:end]), ())
                    found += [number for number, pattern in near if _matches(pattern, parts)]
        return sorted(found)


class TableRules:
    """All entries of `tables`; returns the settings of a table fast, and can be sent to another process."""

    __slots__ = ("_known", "_patterns", "_rules")

    def __init__(self, rules: Sequence[TableRule]) -> None:
        self._rules = tuple(rules)
        self._patterns = Patterns(rule.match for rule in rules)
        self._known: dict[tuple[str | None, str | None, str | None, str], TableSettings] = {}

    def __reduce__(self) -> tuple[object, ...]:
        return TableRules, (self._rules,)

    def settings(
        self, source: str | None, database: str | None, schema: str | None, table: str
    ) -> TableSettings:
        """The settings of one table: every matching entry applies, and a later one wins field by field."""
        at = (source, database, schema, table)
        known = self._known.get(at)
        if known is None:
            mine = (self._rules[number] for number in self._patterns.of(database, schema, table))
            known = self._known[at] = self._combined(rule for rule in mine if rule.source in (None, source))
        return known

    def _combined(self, rules: Iterable[TableRule]) -> TableSettings:
        settings = TableSettings()
        for rule in rules:
            settings = _overridden(settings, rule)
        if settings.track is not None and not settings.history:
            settings = replace(settings, track=None)
        return settings


def unmatched(patterns: Iterable[str], tables: Collection[TableName], where: str) -> tuple[str, ...]:
    """Notes on patterns that match none of the tables: a misspelled name would have no effect, in silence.

    Only the first few notes say which name is close.

    Args:
        patterns: The patterns that `where` of the configuration has.
        tables: All tables that are known; without one there is no note.
        where: The place of the patterns.
    """
    missing = patterns_without_table(patterns, tables)
    names = sorted({name.dotted for name in tables}) if missing else []
    near = [nearest(pattern, names) for pattern in missing[:MOST_HINTS]]
    hints = [f"; did you mean {name!r}?" if name else "" for name in near]
    return tuple(
        f"{where}: no table matches {pattern!r} so far{hint}"
        for pattern, hint in zip_longest(missing, hints, fillvalue="")
    )


def patterns_without_table(patterns: Iterable[str], tables: Collection[TableName]) -> list[str]:
    """The patterns that match none of the tables, each once; none where no table is known."""
    wanted = [*dict.fromkeys(patterns)] if tables else []
    missing, found = set(range(len(wanted))), Patterns(wanted)
    for name in tables:
        if not missing:
            break
        missing.difference_update(found.of(name.database, name.schema, name.table))
    return [wanted[number] for number in sorted(missing)]


def _parts(pattern: str) -> tuple[str, ...]:
    """Raises ConfigurationError for a pattern that is no dotted name."""
    try:
        return split_name(pattern)
    except ValueError:
        raise ConfigurationError(
            "BAD_TABLE_PATTERN",
            found=repr(pattern),
            where="the pattern of a table",
            action="write database.table or database.schema.table, shell wildcards allowed",
        ) from None


@lru_cache(maxsize=_MOST_COMPILED)
def _compiled(pattern: str) -> _PatternParts:
    return tuple(re.compile(fnmatch.translate(part)) for part in split_name(pattern))


def _matches(pattern: _PatternParts, parts: tuple[str, ...]) -> bool:
    return len(pattern) == len(parts) and all(
        expression.match(part) for expression, part in zip(pattern, parts, strict=True)
    )


def _overridden(settings: TableSettings, rule: TableRule) -> TableSettings:
    written = rule.model_fields_set - {"match", "source", "history", "columns"}
    settings = replace(settings, **{name: getattr(rule, name) for name in written})
    if "history" in rule.model_fields_set:
        track = rule.history.track if isinstance(rule.history, History) else None
        settings = replace(settings, history=rule.history is not False, track=track)
    if "columns" in rule.model_fields_set:
        settings = replace(settings, columns=_merged(settings.columns, rule.columns))
    return settings


def _merged(earlier: Mapping[str, ColumnRule], later: Mapping[str, ColumnRule]) -> dict[str, ColumnRule]:
    merged = dict(earlier)
    for name, rule in later.items():
        update = {key: getattr(rule, key) for key in rule.model_fields_set}
        merged[name] = merged[name].model_copy(update=update) if name in merged else rule
    return merged
