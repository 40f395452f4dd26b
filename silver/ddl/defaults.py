"""Constant defaults of columns as canonical text."""

from __future__ import annotations

import base64
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import ROUND_HALF_UP, Decimal, InvalidOperation, localcontext

from sqlglot.tokenizer_core import TokenType

from silver.ddl.mysql_defaults import members, stored_default
from silver.ddl.tokens import TEXT, Cursor
from silver.values.canonical import INTEGERS, number_text, wall_of_text

_ZONED = re.compile(
    r"(\d{4}-\d{1,2}-\d{1,2}[T ]\d{1,2}:\d{2}(?::\d{2}(?:\.\d{1,6})?)?) ?(Z|[+-]\d{2}(?::?\d{2})?)"
)
_WALL = re.compile(r"\d{4}-\d{1,2}-\d{1,2}(?:[T ]\d{1,2}:\d{2}(?::\d{2}(?:\.\d+)?)?)?")
_CLOCK = re.compile(r"([0-2][0-9]:[0-5][0-9])(?::([0-5][0-9]))?")
_MAX_LITERAL = 300
_LENGTH = re.compile(r"\((\d{1,5})")
_TRUTH = {"true": "true", "t": "true", "yes": "true", "on": "true", "1": "true"}
_FALSEHOOD = {"false": "false", "f": "false", "no": "false", "off": "false", "0": "false"}
_PRECISE = re.compile(r"(?:decimal|dec|numeric|fixed|number)\s*\(\s*\d+\s*(?:,\s*(\d+)\s*)?\)")
_OF_TEXT = re.compile(
    r"(?:national |n)?(?:var)?char|character|(?:tiny|medium|long)?text|n?clob|(?:var)?binary"
)
_CUT = re.compile(r"^-?0|0$")
_AS_PRINTED = re.compile(r"-?(?:0|[1-9]\d*)(\.\d+)?", re.ASCII)
_UNICODE = frozenset({"_UTF8", "_UTF8MB3", "_UTF8MB4", "_ASCII", "_BINARY"})
_TYPED_LITERALS = frozenset({"DATE", "TIMESTAMP", "TIME", "DATETIME"})


@dataclass(frozen=True, slots=True)
class Constant:
    """A literal: `kind` is number, text, hex, bits, truth or null."""

    kind: str
    text: str


NULL = Constant("null", "")


def constant(cursor: Cursor) -> Constant | None:
    """Reads the literal here with its sign, parentheses and casts.

    None, and the cursor stays, where there is none.
    """
    start = cursor.i
    found = _constant(cursor)
    if found is None:
        cursor.i = start
    return found


def _constant(cursor: Cursor) -> Constant | None:
    if cursor.word() == "(":
        inner = cursor.group()
        while inner.word() == "(" and inner.closing(inner.i) == inner.end - 1:
            inner = inner.group()
        found = _literal(inner)
        found = found if inner.is_end() else None
    else:
        found = _literal(cursor)
    while found is not None and cursor.take(":", ":"):
        _pass_type(cursor)
    return found


def _literal(cursor: Cursor) -> Constant | None:
    sign = "-" if cursor.take("-") else ""
    if not sign:
        cursor.take("+")
    word = cursor.word()
    if word == "0" or (word == "." and cursor.word(1) == "0"):
        text = "." if cursor.take(".") else ""
        text += cursor.raw()
        cursor.i += 1
        return Constant("number", sign + text.rstrip("."))
    if sign or not word:
        return None
    if word.startswith("_") and cursor.word(1) == TEXT and word not in _UNICODE:
        return None
    if (word.startswith("_") or word in _TYPED_LITERALS) and cursor.word(1) == TEXT:
        cursor.i += 1
    if cursor.word() == TEXT:
        return _text(cursor)
    if word in ("TRUE", "FALSE", "NULL") and cursor.take(word):
        return NULL if word == "NULL" else Constant("truth", word.lower())
    return None


def _text(cursor: Cursor) -> Constant | None:
    token = cursor.tokens[cursor.i]
    cursor.i += 1
    if token.token_type is TokenType.UNICODE_STRING:
        return None
    if cursor.word() == TEXT:
        return None
    kind = {TokenType.HEX_STRING: "hex", TokenType.BIT_STRING: "bits"}.get(token.token_type, "text")
    if kind == "text" and cursor.take(":", ":"):
        _pass_type(cursor)
    return Constant(kind, str(token.text))


def _pass_type(cursor: Cursor) -> None:
    if cursor.is_name():
        cursor.path()
    while (
        cursor.take_any(frozenset({"VARYING", "PRECISION", "ZONE"}))
        or cursor.at("WITH", "TIME")
        or cursor.at("WITHOUT", "TIME")
    ):
        cursor.i += 2 if cursor.word() in ("WITH", "WITHOUT") else 0
    if cursor.word() == "(":
        cursor.group()
    while cursor.take("[", "]"):
        pass


def canonical_default(
    value: Constant, type_name: str | None, declared: str, dialect: str
) -> tuple[str | None, bool]:
    """The literal as canonical text of the column's type, and whether only the source knows the value.

    The source computes a wall time in a column of instants, because it depends on the session's zone. A text
    that does not fit its type stays as it is written where MySQL accepts such texts (`0000-00-00`).
    """
    if value.kind == "null" or (dialect == "oracle" and value.kind == "text" and not value.text):
        return None, False
    if value.kind == "number" and _OF_TEXT.match(declared.lower()) and not _is_printed(value.text, dialect):
        return None, True
    if type_name == "binary":
        return _binary(value, declared, dialect)
    if dialect == "postgres" and value.kind in ("bits", "hex") and type_name == "string":
        return (value.text, False) if value.kind == "bits" else (None, True)
    text = _plain(value, type_name)
    if text is None:
        return None, True
    if (
        dialect == "mysql"
        and (known := stored_default(text, declared, is_number=value.kind == "number")) is not None
    ):
        return known
    if type_name in INTEGERS or type_name in ("float", "double") or (type_name or "").startswith("decimal"):
        return _number(text, type_name or ""), False
    if type_name == "string" and (precise := _PRECISE.match(declared.lower())) is not None:
        return _with_all_digits(text, int(precise[1] or 0)), False
    if type_name == "boolean":
        lowered = text.strip().lower()
        return _TRUTH.get(lowered) or _FALSEHOOD.get(lowered) or text, False
    if type_name in ("date", "timestamp_ntz", "timestamp"):
        return _moment(text.strip(), type_name, dialect)
    if dialect == "postgres":
        return _of_postgres(text, declared)
    return (_padded(text, declared, dialect) if type_name == "string" else text), False


def _plain(value: Constant, type_name: str | None) -> str | None:
    """The literal as text; None for bytes that are not text."""
    if value.kind in ("hex", "bits"):
        if type_name == "string":
            try:
                return _bytes(value).decode("utf-8")
            except UnicodeDecodeError:
                return None
        return str(_integer(value)) if len(value.text) < _MAX_LITERAL else value.text
    if value.kind == "truth" and type_name != "boolean":
        return "1" if value.text == "true" else "0"
    return value.text


def _number(text: str, type_name: str) -> str:
    """A number as the column stores it, rounded to the column's scale."""
    stripped = text.strip().removeprefix("+")
    plain = number_text("0" + stripped if stripped.startswith(".") else stripped.replace("-.", "-0.", 1))
    scale = 0 if type_name in INTEGERS else int(type_name.partition(",")[2].rstrip(")") or -1)
    fraction = plain.partition(".")[2]
    if scale < 0 or len(fraction) <= scale or len(plain) > _MAX_LITERAL or not fraction.isdigit():
        return plain
    try:
        return str(Decimal(plain).quantize(Decimal(1).scaleb(-scale), ROUND_HALF_UP))
    except InvalidOperation:
        return plain


def _with_all_digits(text: str, scale: int) -> str:
    """A number as a column of more digits than a decimal of Spark has stores it: with its whole scale."""
    try:
        number = Decimal(text.strip())
        if not number.is_finite() or abs(number.adjusted()) > _MAX_LITERAL:
            return text
        with localcontext(prec=3 * _MAX_LITERAL):
            found = format(number.quantize(Decimal(1).scaleb(-scale), ROUND_HALF_UP), "f")
    except InvalidOperation:
        return text
    return found if found.strip("-0.") else found.removeprefix("-")


def _is_printed(text: str, dialect: str) -> bool:
    """Whether a number becomes the text that it is written as: `1e3` and `007` do not, which are 1000 and 7.

    Oracle drops zeros at the end of a fraction, and the one before the point.
    """
    found = _AS_PRINTED.fullmatch(text)
    is_zero = not text.strip("-0.")
    is_cut = dialect == "oracle" and found is not None and found[1] and _CUT.search(text) is not None
    return found is not None and not (text[0] == "-" and is_zero) and not is_cut


def _integer(value: Constant) -> int:
    try:
        return int(value.text or "0", 16 if value.kind == "hex" else 2)
    except ValueError:
        return 0


def _bytes(value: Constant) -> bytes:
    number = _integer(value)
    digits = (len(value.text) + 1) // 2 if value.kind == "hex" else (len(value.text) + 7) // 8
    return number.to_bytes(digits, "big")


def _binary(value: Constant, declared: str, dialect: str) -> tuple[str | None, bool]:
    if value.kind in ("hex", "bits"):
        content = _bytes(value)
    elif dialect == "postgres" and value.text.startswith("\\x"):
        try:
            content = bytes.fromhex(value.text[2:])
        except ValueError:
            return None, True
    else:
        content = value.text.encode("utf-8", "replace")
    length = _LENGTH.search(declared)
    if length is not None and declared.lower().startswith("binary"):
        content = content.ljust(int(length[1]), b"\0")
    return base64.b64encode(content).decode(), False


def _moment(text: str, type_name: str, dialect: str) -> tuple[str | None, bool]:
    zoned = _ZONED.fullmatch(text)
    if zoned is not None and type_name == "timestamp":
        return _instant(zoned[1], zoned[2])
    if len(text) == 8 and text.isascii() and text.isdigit():
        text = f"{text[:4]}-{text[4:6]}-{text[6:]}"
    if _WALL.fullmatch(text) is None:
        return (text, False) if dialect == "mysql" else (None, True)
    wall = wall_of_text(text)
    if wall == text and "T" not in wall:
        return text, False
    if type_name == "timestamp":
        return None, True
    return (wall[:10] if type_name == "date" else wall), False


def _instant(wall: str, zone: str) -> tuple[str | None, bool]:
    offset = "+00:00" if zone == "Z" else zone if ":" in zone else f"{zone[:3]}:{zone[3:] or '00'}"
    try:
        moment = datetime.fromisoformat(wall_of_text(wall) + offset).astimezone(UTC)
    except (ValueError, OverflowError):
        return None, True
    return moment.replace(tzinfo=None).isoformat() + "Z", False


def _of_postgres(text: str, declared: str) -> tuple[str | None, bool]:
    """A text as PostgreSQL prints it.

    Only the server knows JSONB, which it reformats, and fractions, which it rounds.
    """
    lowered = declared.lower()
    if lowered.startswith("jsonb"):
        return (text, False) if text.strip() in ("{}", "[]") else (None, True)
    if lowered == "uuid":
        return text.lower(), False
    if lowered.startswith("time"):
        found = _CLOCK.fullmatch(text.strip())
        return (None, True) if found is None else (f"{found[1]}:{found[2] or '00'}", False)
    return _padded(text, declared, "postgres"), False


def _padded(text: str, declared: str, dialect: str) -> str:
    lowered = declared.lower()
    if dialect == "mysql":
        return text
    length = _LENGTH.search(lowered)
    is_fixed = lowered.startswith(("char", "nchar", "bpchar")) and "var" not in lowered
    return text.ljust(int(length[1])) if is_fixed and length is not None else text


def implicit_default(type_name: str | None, declared: str, dialect: str) -> tuple[str | None, bool]:
    """The value of existing rows in a new column: NOT NULL in MySQL, or WITH DEFAULT and no value in DB2."""
    lowered = declared.lower()
    if type_name in INTEGERS or type_name in ("float", "double") or (type_name or "").startswith("decimal"):
        return "0", False
    if type_name == "binary":
        return _binary(Constant("text", ""), declared, dialect)
    if lowered.startswith("enum"):
        return next(iter(members(declared)), None), False
    if lowered.startswith("time") and type_name == "string":
        return (
            (stored_default("0", declared, is_number=True) or (None, True))
            if dialect in ("mysql", "")
            else (None, True)
        )
    if type_name == "string" and (precise := _PRECISE.match(lowered)) is not None:
        return _with_all_digits("0", int(precise[1] or 0)), False
    if type_name == "string" and not lowered.startswith(("json", "xml", "uuid", "inet")):
        return _padded("", declared, dialect), False
    return None, type_name != "date" and not lowered.startswith("datetime")
