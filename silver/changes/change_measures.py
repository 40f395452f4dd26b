"""Measures the row changes of decoded rows, table by table, so that gold plans without reading them.

The measures are those that gold takes of changes itself (`gold/changes/profile.py`); a property test compares
both.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute

from framework.contracts.canonical_types import MAX_DIGITS
from framework.contracts.change_measures import ChangeMeasures, GroupMeasure, Width
from framework.contracts.events import Op, Token
from framework.contracts.full_loads import NUMBERS, PLACE_OF_SNAPSHOT
from framework.contracts.seed import SEEDED
from silver.values.canonical import INTEGERS

MEASURED_BY = ("source", "database", "schema", "table", "reason")
"""The columns that identify a table, and say whether its changes come from a dump."""
_MEASURED = ("op", "sequence", "event_time", "keys", "before", "after", "partial", "schema_id")
MOST_COLUMNS, MOST_GROUPS = 100, 50
"""Tables with more columns of numbers, or more groups, are not measured: that would take too long here."""
_SMALL = 18
"""So many digits fit into 64 bits, whatever they are."""
_PARTS = r"^-?(?P<whole>[0-9]+)(?:\.(?P<fraction>[0-9]+))?$"
_SEPARATOR, _EMPTY_KEY = "\x1f", "\x1e"
_Place = tuple[str | None, ...]
Measured = Mapping[_Place, ChangeMeasures]
"""What other row changes of the tables show, by what `MEASURED_BY` says."""
NONE_KNOWN: Measured = MappingProxyType({})

pc: Any = pyarrow.compute


def measures_by_table(
    batch: pa.RecordBatch, known: Measured = NONE_KNOWN
) -> dict[_Place, ChangeMeasures | None]:
    """The measures of the whole row changes of each table among decoded rows (STAGED).

    None for a table whose changes are not measured: one has no position, nobody tells which columns of its
    schema hold numbers, or they have too many groups or columns of numbers. The keys are what `MEASURED_BY`
    says.

    Args:
        batch: The rows. Of the rows of a schema, one describes its columns, or else `known` has the schema.
        known: What was measured of other rows.
    """
    rows = pa.Table.from_batches([batch])
    described = _numeric_columns(rows.select(["schema_id", "columns"]))
    is_row = pc.and_(pc.equal(rows.column("kind"), "row"), pc.is_null(rows.column("half")))
    rows = rows.select([*MEASURED_BY, *_MEASURED])
    if not pc.all(is_row).as_py():
        rows = rows.filter(is_row)
    if not rows.num_rows:
        return {}
    found: dict[_Place, ChangeMeasures | None] = {}
    for place, mine in _tables(rows.combine_chunks()):
        ids = set(pc.unique(pc.drop_null(mine.column("schema_id"))).to_pylist())
        others = known.get(place, ChangeMeasures())
        if not ids <= described.keys() | {group.schema_id for group in others.groups}:
            found[place] = None
            continue
        schemas = (described[one] for one in ids if one in described)
        names = frozenset(others.widths).union(*(one.numbers(place[-1] == SEEDED) for one in schemas))
        found[place] = _measures(mine, names)
    return found


def _tables(rows: pa.Table) -> Iterator[tuple[_Place, pa.Table]]:
    """The rows of each table."""
    at = rows.select(list(MEASURED_BY)).append_column("at", pa.array(np.arange(rows.num_rows)))
    found = at.group_by(list(MEASURED_BY), use_threads=False).aggregate([("at", "list")])
    places = list(zip(*(found.column(name).to_pylist() for name in MEASURED_BY), strict=True))
    if len(places) == 1:
        yield places[0], rows
        return
    for number, place in enumerate(places):
        yield place, rows.take(found.column("at_list")[number].values)


def _measures(rows: pa.Table, names: frozenset[str]) -> ChangeMeasures | None:
    """The measures of the row changes of one table; None where they are not measured.

    `names` are the columns of which the widths are measured.
    """
    if rows.column("sequence").null_count:
        return None
    groups = _groups(rows)
    if groups is None or len(groups) > MOST_GROUPS:
        return None
    if len(names) > MOST_COLUMNS:
        return None
    return ChangeMeasures(groups, _widths(rows, names))


def _groups(rows: pa.Table) -> tuple[GroupMeasure, ...] | None:
    keys: Any = rows.column("keys").combine_chunks()
    key_names = keys.flatten()
    if pc.any(pc.match_substring_regex(key_names, "[\x1e\x1f]")).as_py() or key_names.null_count:
        return None
    key = pc.binary_join(keys, _SEPARATOR)
    key = pc.if_else(pc.equal(pc.list_value_length(keys), 0), pa.scalar(_EMPTY_KEY), key)
    is_partial = pc.fill_null(rows.column("partial"), False)
    is_key_change = _key_changes(rows, key)
    columns: dict[str, Any] = {
        "schema_id": rows.column("schema_id"),
        "key": key,
        "op": rows.column("op"),
        "sequence": rows.column("sequence"),
        "event_time": rows.column("event_time").cast(pa.int64()),
        "loaded": _number(_are_loaded(rows)),
        "partial": _number(is_partial),
        "key_change": _number(is_key_change),
        "both": _number(pc.and_(is_partial, is_key_change)),
    }
    how: Any = [
        ("op", "count"), ("sequence", "min"), ("sequence", "max"), ("event_time", "max"), ("loaded", "sum"),
        ("partial", "max"), ("key_change", "max"), ("both", "max"),
    ]  # fmt: skip
    by = ["schema_id", "key", "op"]
    found = pa.table(columns).group_by(by, use_threads=False).aggregate(how).to_pylist()
    return tuple(
        GroupMeasure(
            row["schema_id"],
            _key_of(row["key"]),
            row["op"],
            row["op_count"],
            row["sequence_min"],
            row["sequence_max"],
            row["event_time_max"],
            row["loaded_sum"],
            bool(row["partial_max"]),
            bool(row["key_change_max"]),
            bool(row["both_max"]),
        )
        for row in found
    )


def _key_of(text: str | None) -> tuple[str, ...] | None:
    if text is None:
        return None
    return () if text == _EMPTY_KEY else tuple(text.split(_SEPARATOR))


def _are_loaded(rows: pa.Table) -> Any:
    """Which changes are rows of a full load."""
    is_read = pc.equal(rows.column("op"), str(Op.READ))
    if not pc.any(is_read).as_py():
        return is_read
    sequence = rows.column("sequence")
    is_plain = pc.match_substring_regex(sequence, NUMBERS)
    has_load = pc.or_(pc.invert(is_plain), pc.match_substring_regex(sequence, PLACE_OF_SNAPSHOT))
    return pc.and_(is_read, has_load)


def _key_changes(rows: pa.Table, key: Any) -> Any:
    """Which changes are updates that may change the key."""
    is_update = pc.equal(rows.column("op"), str(Op.UPDATE))
    is_candidate = pc.and_(is_update, pc.is_valid(rows.column("before")))
    if not pc.any(is_candidate).as_py():
        return is_candidate
    changed = np.zeros(rows.num_rows, dtype=bool)
    for text in pc.unique(key.filter(is_candidate)).to_pylist():
        names = _key_of(text)
        is_of_key = pc.is_null(key) if text is None else pc.equal(key, text)
        places: Any = np.flatnonzero(pc.fill_null(pc.and_(is_candidate, is_of_key), False).to_numpy())
        if names is None:
            changed[places] = True
            continue
        mine = rows.select(["before", "after"])
        if len(places) < rows.num_rows:
            mine = mine.take(pa.array(places)).combine_chunks()
        for name in names:
            before, after = (_values_at(mine.column(image), name) for image in ("before", "after"))
            differ = pc.coalesce(pc.not_equal(before, after), pc.xor(pc.is_null(before), pc.is_null(after)))
            changed[places] |= differ.to_numpy(zero_copy_only=False)
    return pa.array(changed)


def _values_at(images: pa.ChunkedArray[Any], name: str) -> Any:
    """The value of a name in each image; null where it is null or not there."""
    return pc.map_lookup(images.combine_chunks(), pa.scalar(name), "first")


class _Numeric(NamedTuple):
    """The columns of a schema that hold numbers, and those of which it tells nothing."""

    told: frozenset[str]
    untold: frozenset[str]

    def numbers(self, of_dump: bool) -> frozenset[str]:
        """The columns that may hold numbers; in a dump, those of which nothing is told may, too."""
        return self.told | self.untold if of_dump else self.told


def _numeric_columns(rows: pa.Table) -> dict[str, _Numeric]:
    """The columns of each schema, by its id.

    Of all rows of a schema, also those of other tables, one has the text of its columns.
    """
    described = rows.filter(pc.is_valid(rows.column("columns")))
    found: dict[str, _Numeric] = {}
    for schema_id, text in zip(*(column.to_pylist() for column in described.columns), strict=True):
        columns = json.loads(text)
        found[schema_id] = _Numeric(
            frozenset(
                name
                for name, kind, _, token in columns
                if kind in INTEGERS or str(Token.NUMBER) in (token or "").split(",")
            ),
            frozenset(name for name, kind, _, token in columns if kind is None and token == Token.NULL),
        )
    return found


def _widths(rows: pa.Table, names: frozenset[str]) -> dict[str, Width]:
    """The widths of the numbers in these columns of both images."""
    widths = dict.fromkeys(sorted(names), Width())
    for image in ("before", "after") if names else ():
        for name, values in _values(rows.column(image), sorted(names)):
            widths[name] |= width_of(values)
    return widths


def _values(images: pa.ChunkedArray[Any], names: Sequence[str]) -> Iterator[tuple[str, Any]]:
    """The values of each of these columns that are not null."""
    maps: Any = images.combine_chunks()
    start, end = maps.offsets[0].as_py(), maps.offsets[-1].as_py()
    texts = maps.items[start:end]
    encoded = maps.keys[start:end].dictionary_encode()
    codes: Mapping[str, int] = {name: code for code, name in enumerate(encoded.dictionary.to_pylist())}
    at = encoded.indices.to_numpy(zero_copy_only=False)
    for name in names:
        if name in codes:
            yield name, pc.drop_null(texts.take(pa.array(np.flatnonzero(at == codes[name]))))


def width_of(texts: Any) -> Width:
    """The width of numbers, from their texts (an Arrow array without nulls)."""
    if not len(texts):
        return Width()
    try:
        whole = texts.cast(pa.int64())
    except pa.ArrowInvalid:
        return _width_of_any(texts)
    if not pc.all(pc.equal(whole.cast(pa.string()), texts)).as_py():  # "007", and others that Arrow reads
        return _width_of_any(texts)
    low, high = (whole_number.as_py() for whole_number in pc.min_max(whole).values())
    return Width(max(len(str(abs(low))), len(str(abs(high)))), 0, min(low, 0), max(high, 0))


def _width_of_any(texts: Any) -> Width:
    """The width of numbers as Arrow cannot read all of them."""
    values = pc.unique(texts)
    parts = pc.extract_regex(values, _PARTS)
    plain = pc.drop_null(parts)
    others = len(plain) < len(values)
    if not len(plain):
        return Width(has_others=True)
    fraction = pc.utf8_length(pc.struct_field(plain, "fraction"))
    stripped = pc.utf8_length(pc.utf8_ltrim(pc.struct_field(plain, "whole"), characters="0"))
    digits = pc.max_element_wise(stripped, 1)
    others |= bool(pc.any(pc.greater(pc.add(digits, fraction), MAX_DIGITS)).as_py())
    length = pc.utf8_length(pc.struct_field(parts, "whole"))
    is_whole = pc.and_(pc.less_equal(length, MAX_DIGITS), pc.equal(_fraction_lengths(parts), 0))
    whole = values.filter(pc.fill_null(is_whole, False))
    numbers = _ends(whole)
    return Width(pc.max(digits).as_py(), pc.max(fraction).as_py(), min(numbers), max(numbers), others)


def _fraction_lengths(parts: Any) -> Any:
    return pc.utf8_length(pc.struct_field(parts, "fraction"))


def _ends(whole: Any) -> list[int]:
    """0, and the lowest and highest of whole numbers."""
    is_short = pc.less_equal(pc.utf8_length(whole), _SMALL)
    short, long = whole.filter(is_short), whole.filter(pc.invert(is_short))
    ends = [end.as_py() for end in pc.min_max(short.cast(pa.int64())).values()] if len(short) else []
    return [0, *ends, *(int(text) for text in long.to_pylist())]


def _number(condition: Any) -> Any:
    """1 where the condition holds, else 0."""
    return pc.fill_null(condition, False).cast(pa.int64())
