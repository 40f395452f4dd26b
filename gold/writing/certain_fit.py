"""Which texts certainly fit a type: a look in this process that saves a Spark job where nothing is wrong.

`gold.schema.casting` decides what fits. This module says only what surely does, for texts as sources write
them; for all others Spark is asked.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable
from datetime import date, datetime
from decimal import Context, Decimal
from struct import pack, unpack

from gold.changes.few_changes import FewChange
from gold.planning.plan import Plan
from gold.schema.kept_digits import FEW_DIGITS

_SIZES = {"tinyint": 2**7, "smallint": 2**15, "int": 2**31, "bigint": 2**63}
_WHOLE = re.compile(r"-?[0-9]{1,19}")
_NUMBER = re.compile(r"-?[0-9]{1,38}(?:\.[0-9]{1,22})?")
_MOST_DIGITS, _SURE_OF_FLOAT = 17, 9
_DECIMAL = re.compile(r"-?([0-9]{1,38})(?:\.([0-9]{1,38}))?")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_STAMP = re.compile(r"([0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,6})?)(Z?)")
_ONLY_NUMBER = re.compile(r"0|-?(?:[1-9][0-9]*|(?:0|[1-9][0-9]*)\.[0-9]*[1-9])")
"""One text for each number."""
_DECIMAL_TYPE = re.compile(r"decimal\(([0-9]+),([0-9]+)\)")


def certainly_fit(rows: Iterable[FewChange], plan: Plan) -> bool:
    """Whether every cell of these changes, and the key of each, surely fits its column.

    The changes came with the current key. False also where columns were renamed, retyped or have defaults
    since one of them.
    """
    kinds = [(column.name, column.type, column.name in plan.layout.keys) for column in plan.layout.columns]
    for row in rows:
        image = row.image
        if image is None or not plan.namings[row.naming].keeps_images:
            return False
        for name, kind, is_key in kinds:
            text = image.get(name)
            if text is None:
                if is_key and name not in image:
                    return False
            elif not certainly_fits(text, kind):
                return False
    return True


def certainly_fits(text: str, kind: str) -> bool:
    """Whether a text surely has a value in a type, with all its digits; False where Spark must be asked."""
    if kind == "string":
        return True
    if kind in _SIZES:
        return _WHOLE.fullmatch(text) is not None and -_SIZES[kind] <= int(text) < _SIZES[kind]
    if kind == "boolean":
        return text in ("true", "false")
    if kind in ("float", "double"):
        return _NUMBER.fullmatch(text) is not None and _keeps_digits(text, kind)
    if kind in ("date", "timestamp", "timestamp_ntz"):
        return _is_moment(text, kind)
    if kind == "binary":
        return _is_base64(text)
    return _is_decimal(text, kind)


def is_only_text(text: str, kind: str) -> bool:
    """Whether a text surely has a value in a type that no other text has for which this is true."""
    if kind == "string":
        return True
    if kind in _SIZES or kind.startswith("decimal"):
        return _ONLY_NUMBER.fullmatch(text) is not None and certainly_fits(text, kind)
    if kind in ("timestamp", "timestamp_ntz"):
        return not ("." in text and text.rstrip("Z").endswith("0")) and certainly_fits(text, kind)
    return kind in ("boolean", "date", "binary") and certainly_fits(text, kind)


def _keeps_digits(text: str, kind: str) -> bool:
    if len(text) <= FEW_DIGITS[kind]:
        return True
    digits = len(text.lstrip("-").replace(".", "").strip("0"))
    if digits <= FEW_DIGITS[kind]:
        return True
    value = sent = float(text)
    if kind == "float":
        (value,) = unpack("f", pack("f", sent))
    if digits > _MOST_DIGITS or (kind == "float" and digits > _SURE_OF_FLOAT and value != sent):
        return False
    return Context(prec=digits).create_decimal(Decimal(value)) == Decimal(text)


def _is_moment(text: str, kind: str) -> bool:
    try:
        if kind == "date":
            return _DATE.fullmatch(text) is not None and date.fromisoformat(text) is not None
        match = _STAMP.fullmatch(text)
        if match is None or bool(match[2]) != (kind == "timestamp"):
            return False
        return datetime.fromisoformat(match[1]) is not None
    except ValueError:
        return False


def _is_base64(text: str) -> bool:
    try:
        return base64.b64encode(base64.b64decode(text, validate=True)).decode() == text
    except (binascii.Error, ValueError):
        return False


def _is_decimal(text: str, kind: str) -> bool:
    limits, match = _DECIMAL_TYPE.fullmatch(kind), _DECIMAL.fullmatch(text)
    if limits is None or match is None or len(text) > 38:
        return False
    precision, scale = int(limits[1]), int(limits[2])
    return len(match[1].lstrip("0")) <= precision - scale and len((match[2] or "").rstrip("0")) <= scale
