"""The row id of a SharePlex message: the values of the source's key, which the configured key must have.

    {"data": {"id": 7, "customer": 5}, "meta": {"table": "shop.orders", "rowid": "shop.orders-7"}}

    rowid                          configured key   values      is it the key
    shop.orders-7                  id               7           yes
    shop.orders-7                  customer         5           no
    shop.orders-7 U+0001 2         line, id         2, 7        yes, in any order
    shop.orders-72                 id, line         7, 2        yes: a separator was lost
    shop.orders-7                  id, customer     7, 5        it may be: the key and a column more
    shop.orders-a U+0001 b         code             a U+0001 b  yes: the value holds the separator

The row id has the names of no columns. Only integers and texts are compared, without the zeros and spaces
with which a source fills them up: a fraction, a time or bytes may be written in another way there, and a row
id that has one says nothing. Nor does one that does not begin with the name of the table: it is another
database's.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from framework.contracts.events import Column, Token
from silver.decoding.format import ColumnHint
from silver.envelopes.oms.values import SEPARATOR

_OTHERWISE_WRITTEN = re.compile(
    r"[0-9]{4}-[0-9]{1,2}-[0-9].*|-?[0-9]+:[0-9]{2}.*|[+-]?[0-9]*\.[0-9]*([Ee][+-]?[0-9]+)?|[+-]?[0-9]+[Ee].*"
    r"|[0-9A-Za-z+/]+={1,2}|0[xX][0-9A-Fa-f]*|-0*",
    re.DOTALL,
)
"""A day, a time, a fraction, base64, hexadecimal digits, or a zero with a sign."""
_SAME_TEXT = re.compile(r"string|tinyint|smallint|int|bigint|decimal\([0-9]+,\s*0\)")
_FILLED = re.compile(r"(-?)0*([0-9]+)")


def split_values(texts: Iterable[str | None]) -> list[str]:
    """The values as a row id shows them: a value that holds the separator looks like several."""
    return [value for text in texts for value in SEPARATOR.split(text or "")]


def is_compared(column: Column | None, hint: ColumnHint | None, text: str | None) -> bool:
    """Whether a value is written in the row id as in the image."""
    if column is None or column.token not in (Token.NUMBER, Token.TEXT) or not text:
        return False
    if hint is not None and (hint.encoding or (hint.type and not _SAME_TEXT.fullmatch(hint.type))):
        return False
    return _OTHERWISE_WRITTEN.fullmatch(text) is None


def may_be_key(values: Sequence[str], key: Mapping[str, str | None], compared: Iterable[str]) -> bool:
    """Whether the values of a row id may be those of a key.

    Args:
        values: The values of the row id.
        key: The key's columns and their values in an image.
        compared: Those of the columns that are compared.
    """
    if values == split_values(key.values()) or any(map(_OTHERWISE_WRITTEN.fullmatch, values)):
        return True
    names = list(compared)
    texts = list(map(_unfilled, split_values(key[name] for name in names)))
    if len(values) > 1 or len(key) == 1:
        return Counter(texts) <= Counter(map(_unfilled, values))
    (packed,) = values
    if _unfilled(packed) in texts or len(names) < len(key):
        return True
    return all(text in packed for text in texts) and _letters([packed]) == _letters(texts)


def _unfilled(text: str) -> str:
    """A text without spaces at its end, and a number without zeros before it."""
    found = _FILLED.fullmatch(text.rstrip(" "))
    return "".join(found.groups()) if found else text.rstrip(" ")


def _letters(texts: Iterable[str]) -> Counter[str]:
    letters = Counter("".join(texts))
    return Counter({letter: count for letter, count in letters.items() if letter not in " 0"})
