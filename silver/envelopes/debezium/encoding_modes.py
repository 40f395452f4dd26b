"""Values that Debezium's connectors write in one of several modes, in messages without a schema block.

    kind, setting of the connector       mode                        written as
    decimals, decimal.handling.mode      base64 (precise)            base64 of the unscaled value
                                         text (string)               digits as text
                                         number (double)             a JSON number
    binary, binary.handling.mode         base64 (bytes, base64)      base64
                                         base64url (base64-url-safe) base64 with - and _
                                         hex                         hexadecimal digits
    times, time.precision.mode           adaptive                    milli- or microseconds by the column's
                                                                     digits
                                         adaptive_time_microseconds  the same, but times of day always in
                                                                     microseconds
                                         connect                     milliseconds
                                         microseconds, nanoseconds   these
                                         isostring                   text

A JSON number in a column of decimals, an object with a scale, and a time as text are unambiguous: they need
no mode, and show none. `interval.handling.mode` and `bigint.unsigned.handling.mode` need no setting: a number
and a text cannot be confused there, because the base64 of an unsigned number never consists of digits alone.

A value rules out the modes in which it cannot have been written: by the alphabet, the length and the padding
of base64, by a point or a sign, by a time that the column cannot hold or that has more digits than the
column. A column whose digits are not declared (`timestamp_ntz` in the configuration) rules out nothing; its
unit comes from the mode, else from the number of digits.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from msgspec import Struct

from framework.contracts.events import Token
from framework.contracts.quarantine_reasons import Malformed, Reason
from silver.decoding.cells import read_cell
from silver.decoding.encoding_modes import Modes, ModeState, evidence_text, fault_detail
from silver.envelopes.connect.byte_encodings import bytes_of, url_bytes_of
from silver.envelopes.connect.column_types import BASE64URL_BYTES, HEX_BYTES, TEXT_DECIMAL, Field, Fields
from silver.envelopes.connect.temporal import ANY_TIMESTAMP, is_beyond_nanoseconds

KINDS: Mapping[str, tuple[str, ...]] = {
    "decimals": ("base64", "text", "number"),
    "binary": ("base64", "base64url", "hex"),
    "times": (
        "adaptive",
        "adaptive_time_microseconds",
        "connect",
        "isostring",
        "microseconds",
        "nanoseconds",
    ),
}
"""The modes of each kind. These are the values of the source's options with that name."""
SHOWN_SETTINGS = {
    "transactions": ("compressed_transactions", "true"),
    "tombstones": ("tombstones", "delete"),
}
"""The options that neighbouring messages show to be missing, with their values."""
OPEN_DECIMAL, OPEN_BYTES = "decimal in an unknown mode", "bytes in an unknown mode"
OPEN_TIME, OPEN_WALL = "time of day in an unknown mode", "wall time in an unknown mode"
"""Names that no connector writes, for fields whose values can only be read with a mode."""

_KIND_OF = {OPEN_DECIMAL: "decimals", OPEN_BYTES: "binary", OPEN_TIME: "times", OPEN_WALL: "times"}
_EVERY = {kind: frozenset(modes) for kind, modes in KINDS.items()}
_NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?(?:[eE][+-]?[0-9]+)?|Infinity)|NaN")
_HEX = re.compile(r"(?:[0-9A-Fa-f]{2})+")
_COUNT = re.compile(r"-?[0-9]{1,20}")
_DIGITS_OF = {"ms": 3, "us": 6, "ns": 9}
_NAMES = {
    OPEN_TIME: {
        "ms": "io.debezium.time.Time",
        "us": "io.debezium.time.MicroTime",
        "ns": "io.debezium.time.NanoTime",
    },
    OPEN_WALL: {
        "ms": "io.debezium.time.Timestamp",
        "us": "io.debezium.time.MicroTimestamp",
        "ns": "io.debezium.time.NanoTimestamp",
    },
}
_SPANS = {OPEN_TIME: (-3_020_400, 3_020_400), OPEN_WALL: (-62_167_305_600, 253_402_387_200)}
"""Seconds.

MySQL's times of day end at 838:59:59, its wall times with the year 9999; one day more at each end.
"""


Names = tuple[str | None, str | None, str]
"""Database, schema and table."""


class ResolvedFields(Struct, frozen=True):
    """The fields of a row, with a mode where one is needed, and the new evidence that its values give."""

    fields: Mapping[str, Field]
    evidence: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Cell:
    """One value of a column that needs a mode.

    `modes` are those in which it can have been written, None where it rules out nothing.
    """

    name: str
    field: Field
    text: str
    modes: Modes | None


def resolve_modes(
    fields: Mapping[str, Field],
    images: Iterable[Mapping[str, Any] | None],
    states: Mapping[str, ModeState],
    table: Names,
) -> ResolvedFields:
    """Gives each column that needs a mode the one in which the values of the images are written.

    Raises `Malformed`, which names the table, where a value has different meanings in the modes that are left
    open, or fits none of them.
    """
    is_declared = type(fields) is Fields  # the message's own schema block leaves nothing open
    open_fields = (
        {} if is_declared else {name: field for name, field in fields.items() if field.name in _KIND_OF}
    )
    if not open_fields:
        return ResolvedFields(fields)
    cells = [cell for image in images if image is not None for cell in _cells(open_fields, image)]
    evidence: dict[str, None] = {}
    faults = []
    found = dict(fields)
    for kind in dict.fromkeys(_KIND_OF[field.name or ""] for field in open_fields.values()):
        state = states.get(kind) or ModeState(_EVERY[kind])
        mine = [cell for cell in cells if _KIND_OF[cell.field.name or ""] == kind and cell.modes is not None]
        shown_sets = {cell.modes for cell in mine if cell.modes is not None}
        evidence.update((evidence_text(kind, modes), None) for modes in shown_sets if state.is_news(modes))
        left = state.left.intersection(*shown_sets)
        fault = _fault(kind, state.left, left, mine)
        faults += [] if fault is None else [fault]
        chosen = left or state.left or _EVERY[kind]
        found.update(
            {
                name: _field_in_mode(field, chosen)
                for name, field in open_fields.items()
                if _KIND_OF[field.name or ""] == kind
            }
        )
    if faults:
        raise Malformed(faults[0].reason, faults[0].detail, evidence=tuple(evidence), table=table)
    return ResolvedFields(found, tuple(evidence))


def _cells(open_fields: Mapping[str, Field], image: Mapping[str, Any]) -> Iterable[_Cell]:
    for name, field in open_fields.items():
        if name not in image:
            continue
        token, text = read_cell(image[name])
        if text is not None:
            yield _Cell(name, field, text, _POSSIBLE[field.name or ""](field, token, text))


def _fault(kind: str, known: Modes, left: Modes, cells: Iterable[_Cell]) -> Malformed | None:
    """Why values cannot be read: no known mode fits them, or several do and give different values."""
    advice = f"write `{kind}:` for the source"
    for cell in cells:
        mine = cell.modes or frozenset()
        if not left:
            wanted = (
                f"the source's other values and settings say {_listed(known)}"
                if known
                else "the source's values contradict each other"
            )
            fault = f"column {cell.name[:100]!r} is written as {_listed(mine)}; {wanted}: {advice}"
            return Malformed(Reason.ENCODING_CONTRADICTED, fault_detail(kind, fault))
        if len({_READ[cell.field.name or ""](cell.field, mode, cell.text) for mode in left}) > 1:
            fault = f"column {cell.name[:100]!r} can be {_listed(left)}: {advice}"
            return Malformed(Reason.ENCODING_UNKNOWN, fault_detail(kind, fault))
    return None


def _listed(modes: Modes) -> str:
    return " or ".join(sorted(modes))


def _field_in_mode(field: Field, modes: Modes) -> Field:
    """The field as it is read in one of these modes; all of them read the values of this message equally."""
    kind = _KIND_OF[field.name or ""]
    mode = next(mode for mode in KINDS[kind] if mode in modes)
    if field.name == OPEN_DECIMAL:
        name = TEXT_DECIMAL if mode == "text" else "org.apache.kafka.connect.data.Decimal"
        return Field(type="bytes", name=name, parameters=field.parameters)
    if field.name == OPEN_BYTES:
        return Field(type="bytes", name={"hex": HEX_BYTES, "base64url": BASE64URL_BYTES}.get(mode))
    digits = _digits(field)
    units = {_unit(field, mode, digits) for mode in modes if mode != "isostring"} or {"us"}
    if digits is None and (len(units) > 1 or None in units):
        return Field(name=ANY_TIMESTAMP)
    unit = next(unit for unit in _DIGITS_OF if unit in units)
    return Field(type="int64", name=_NAMES[field.name or ""][unit])


def _digits(field: Field) -> int | None:
    """The number of digits of the column's seconds; None where it is not declared."""
    text = (field.parameters or {}).get("digits")
    return None if text is None else min(int(text), 9)


def _unit(field: Field, mode: str, digits: int | None) -> str | None:
    """The unit in which a mode writes a time.

    None where it writes text, or the column's digits decide and are not known.
    """
    fixed = {"connect": "ms", "microseconds": "us", "nanoseconds": "ns", "isostring": None}
    if mode in fixed:
        return fixed[mode]
    if field.name == OPEN_TIME:
        return "us"  # MySQL's and MariaDB's connectors know no other adaptive mode
    return None if digits is None else "ms" if digits <= 3 else "us" if digits <= 6 else "ns"


def _possible_decimal(_: Field, token: Token, text: str) -> Modes | None:
    if token is not Token.TEXT:
        return None
    found = {"text"} if _NUMBER.fullmatch(text) else set()
    if _is_base64(text, bytes_of):
        found.add("base64")
    return frozenset(found) or None


def _possible_bytes(_: Field, token: Token, text: str) -> Modes | None:
    if token is not Token.TEXT or not text:
        return None
    found = {"hex"} if _HEX.fullmatch(text) else set()
    found |= {
        mode for mode, read in (("base64", bytes_of), ("base64url", url_bytes_of)) if _is_base64(text, read)
    }
    return frozenset(found) or None


def _is_base64(text: str, read: Callable[[str], bytes | None]) -> bool:
    """Whether a text is base64 as every writer writes it: whole, and with no bit that it does not need."""
    data = read(text)
    if not data:
        return False
    plain = base64.b64encode(data).decode()
    return text in (plain, plain.replace("+", "-").replace("/", "_"))


def _possible_time(field: Field, token: Token, text: str) -> Modes | None:
    digits = _digits(field)
    if token is not Token.NUMBER or digits is None or not _COUNT.fullmatch(text):
        return None
    units = _units(field.name or "", int(text), digits)
    return frozenset(mode for mode in KINDS["times"] if _unit(field, mode, digits) in units) or None


@lru_cache(maxsize=4096)
def _units(name: str, count: int, digits: int) -> frozenset[str]:
    """The units in which a column of so many digits can have this count."""
    low, high = _SPANS[name]
    found = set()
    for unit, places in _DIGITS_OF.items():
        is_whole = count % 10 ** max(places - digits, 0) == 0
        if is_whole and low * 10**places <= count <= high * 10**places:
            found.add(unit)
    if name == OPEN_WALL and is_beyond_nanoseconds(count):
        found.add("ns")
    return frozenset(found)


def _read_decimal(_: Field, mode: str, text: str) -> str:
    return f"{mode} {text}"


def _read_bytes(_: Field, mode: str, text: str) -> str:
    data = bytes.fromhex(text) if mode == "hex" else (url_bytes_of if mode == "base64url" else bytes_of)(text)
    return "" if data is None else data.hex()


def _read_time(field: Field, mode: str, text: str) -> str:
    count, unit = int(text), _unit(field, mode, _digits(field))
    return str(count * 10 ** (9 - _DIGITS_OF[unit])) if unit else text


_POSSIBLE: Mapping[str, Callable[[Field, Token, str], Modes | None]] = {
    OPEN_DECIMAL: _possible_decimal,
    OPEN_BYTES: _possible_bytes,
    OPEN_TIME: _possible_time,
    OPEN_WALL: _possible_time,
}
_READ: Mapping[str, Callable[[Field, str, str], str]] = {
    OPEN_DECIMAL: _read_decimal,
    OPEN_BYTES: _read_bytes,
    OPEN_TIME: _read_time,
    OPEN_WALL: _read_time,
}
