"""The kinds of values in a configuration: durations, zones, types, dotted names, places."""

from __future__ import annotations

import codecs
import os
import re
import zoneinfo
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, WithJsonSchema
from pydantic_core import PydanticCustomError

from framework.errors import suggested

_DURATION = re.compile(r"(\d+)\s*([a-z]+)")
_UNITS = {
    **dict.fromkeys(("s", "sec", "second", "seconds"), timedelta(seconds=1)),
    **dict.fromkeys(("m", "min", "minute", "minutes"), timedelta(minutes=1)),
    **dict.fromkeys(("h", "hour", "hours"), timedelta(hours=1)),
    **dict.fromkeys(("d", "day", "days"), timedelta(days=1)),
}
_SIMPLE_TYPES = frozenset(
    "boolean tinyint smallint int bigint float double date timestamp timestamp_ntz binary string".split()  # noqa: SIM905
)
_DECIMAL = re.compile(r"decimal\(\s*(\d{1,2})\s*,\s*(\d{1,2})\s*\)")
_NAME_PART = re.compile(r"`((?:[^`]|``)*)`|([^.`]+)")
_OBJECT_STORES = frozenset({"s3", "s3a", "gs", "abfs", "abfss", "wasb", "wasbs", "adl", "oss", "cos"})
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")


def value_error(action: str) -> PydanticCustomError:
    """The error of a value that is not allowed; `action` says what to write."""
    return PydanticCustomError("bad_value", "{action}", {"action": action})


def parse_duration(value: object) -> timedelta:
    """The duration of a text such as `10 minutes` or `30 s`."""
    if isinstance(value, timedelta):
        return value
    match = _DURATION.fullmatch(value.strip().lower()) if isinstance(value, str) else None
    if match is None:
        raise value_error("write a number and a unit, for instance '10 minutes', '30 s', '2 hours'")
    unit = _UNITS.get(match[2])
    if unit is None:
        raise value_error(f"the unit: {suggested(match[2], _UNITS)}")
    try:
        return int(match[1]) * unit
    except OverflowError:
        raise value_error("write a shorter time") from None


def check_zone(name: str) -> str:
    """The name, if it is a zone of the IANA database."""
    zones = _zones()
    if name not in zones:
        # what is like an abbreviation is another zone: CEST is not EST
        match = suggested(name, zones).partition(" allowed: ")[0] if "/" in name else ""
        hint = f"{match} " if match.startswith("did you mean") else ""
        raise value_error(f"{hint}write an IANA time zone, for instance 'UTC' or 'Asia/Shanghai'")
    return name


def check_type(text: str) -> str:
    """A canonical type as Spark SQL writes it, without spaces."""
    lowered = text.strip().lower()
    if lowered in _SIMPLE_TYPES:
        return lowered
    match = _DECIMAL.fullmatch(lowered)
    if match and 1 <= int(match[1]) <= 38 and int(match[2]) <= int(match[1]):
        return f"decimal({int(match[1])},{int(match[2])})"
    if "(" in lowered and ")" not in lowered:  # in braces, YAML ends a text at a comma
        raise value_error("put the type in quotes: 'decimal(12,2)'")
    raise value_error(
        f"{suggested(lowered, {*_SIMPLE_TYPES, 'decimal(p,s)'})}; p from 1 to 38, s from 0 to p"
    )


def check_codec(name: str) -> str:
    """The name of a text encoding that Python knows."""
    try:
        if codecs.lookup(name)._is_text_encoding:
            return name
    except LookupError:
        pass
    raise value_error(
        suggested(name, ("utf8", "ascii", "latin1", "gbk", "gb18030", "big5", "shift_jis", "utf-16"))
    )


def split_name(text: str) -> tuple[str, ...]:
    """The parts of a dotted name; a part in backticks may contain dots, and a doubled backtick is one."""
    parts: list[str] = []
    at = 0
    while match := _NAME_PART.match(text, at):
        parts.append(match[2] if match[1] is None else match[1].replace("``", "`"))
        at = match.end()
        if at == len(text):
            return tuple(parts)
        if text[at] != ".":
            break
        at += 1
    raise value_error(
        "write database.table or database.schema.table; a part that holds a dot goes in `backticks`"
    )


def check_pattern(text: str) -> str:
    """A dotted pattern of at most three parts."""
    if len(split_name(text)) > 3:
        raise value_error(
            "write database.table or database.schema.table, with * and ? for any characters; a part that"
            " holds a dot goes in `backticks`"
        )
    return text


def check_replica(text: str) -> str:
    """A dotted name of two or three parts."""
    if len(split_name(text)) not in (2, 3):
        raise value_error("write database.table or database.schema.table")
    return text


def check_place(text: str) -> str:
    """A path or URL. Object stores have two slashes behind their scheme; `dbfs:/` is a path of Databricks."""
    scheme, colon, rest = text.partition(":")
    if colon and scheme.lower() in _OBJECT_STORES and not rest.startswith("//"):
        raise value_error(f"write two slashes behind the scheme: {scheme.lower()}://…")
    return text


def is_url(place: str) -> bool:
    """Whether the place is an object-store URL and no local path."""
    return bool(_URL.match(place)) and not place.startswith("file:")


def absolute_place(place: str, folder: Path) -> str:
    """The place as an absolute path or URL without a slash at its end; a relative path starts at `folder`."""
    if is_url(place):
        return place.rstrip("/")
    local = re.sub(r"^file:(?://(?=/))?", "", place)
    return os.path.normpath(folder / Path(local).expanduser())


@cache
def _zones() -> frozenset[str]:
    return frozenset(zoneinfo.available_timezones())


_DURATION_SCHEMA = WithJsonSchema(
    {"type": "string", "pattern": r"^\d+\s*[a-z]+$", "examples": ["10 minutes", "30 s", "2 hours"]}
)

Duration = Annotated[timedelta, BeforeValidator(parse_duration), _DURATION_SCHEMA]
Zone = Annotated[str, AfterValidator(check_zone)]
CanonicalType = Annotated[str, AfterValidator(check_type)]
Codec = Annotated[str, AfterValidator(check_codec)]
Place = Annotated[str, AfterValidator(check_place)]
Pattern = Annotated[str, AfterValidator(check_pattern)]
ReplicaName = Annotated[str, AfterValidator(check_replica)]
