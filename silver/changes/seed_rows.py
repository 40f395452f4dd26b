"""One row of a dump as a change: read at the seed's position, with values as the feed declares the columns.

A dump has types of its own, or none (CSV). If the feed or the configuration says another type, the text is
converted: `2024-02-29 10:00:00` of a CSV file is `2024-02-29T10:00:00` in a column of wall times. A text that
does not fit stays unchanged, and gold lists the cell. Bytes of a column with a codec are text as in the feed.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import msgspec

from framework.contracts.events import Column, Op, Token
from framework.contracts.messages import RawMessage
from framework.contracts.quarantine_reasons import Malformed, Reason
from framework.contracts.seed import SEEDED, Seed, seed_of_header
from silver.changes.change_id import digest, image_parts, key_values
from silver.changes.staged_rows import STAGED, Row
from silver.decoding.cells import coded_text
from silver.decoding.format import Context
from silver.values.canonical import INTEGERS, declared_text, instant_of_wall, wall_of_text

_ZONED = re.compile(
    r"(\d{4}-\d{1,2}-\d{1,2}[ T]\d{1,2}:\d{2}(?::\d{2}(?:\.\d+)?)?) ?(?:Z|UTC|([+-])(\d{2}):?(\d{2})?)",
    re.ASCII,
)
_TEXTS = msgspec.json.Decoder(dict[str, str | None])
_MIDNIGHT = re.compile(r"T00:00:00(\.0*)?$", re.ASCII)
_TRUTHS = {"t": "true", "yes": "true", "y": "true", "f": "false", "no": "false", "n": "false"}

Declared = Mapping[str, Column]
"""The columns of a table as its feed describes them."""


def seeded_row(
    message: RawMessage,
    header: bytes,
    format_name: str,
    context: Context,
    declared: Mapping[tuple[object, ...], Declared],
) -> Row:
    """The change. `declared` has the feed's columns by the seed's table. Raises Malformed."""
    try:
        seed = seed_of_header(header)
        texts = _TEXTS.decode(message.value or b"")
    except (ValueError, msgspec.MsgspecError, RecursionError):
        raise Malformed(Reason.WRONG_SHAPE, "no row of a dump") from None
    known = declared.get(seed.identity, {})
    given = context.hints_for(seed.database, seed.schema, seed.table)
    codecs = context.codecs_for(seed.database, seed.schema, seed.table)
    codecs = {name: codec for name, codec in codecs.items() if seed.columns.get(name) == "binary"}
    after: dict[str, str | None] = {}
    for name, text in texts.items():
        target = given[name].type if name in given else None
        target = target or (known[name].type if name in known else None)
        after[name] = (
            text_as(text, seed.columns.get(name), target, context.timezone)
            if text is None or name not in codecs
            else coded_text(name, text, codecs[name])
        )
    order = [*(name for name in known if name in texts), *(name for name in texts if name not in known)]
    shape = {name: _column(seed, known, name) for name in order}
    shape |= {name: Column(type="string", declared=shape[name].declared) for name in codecs if name in shape}
    return _row(message, seed, format_name, after, shape)


def _column(seed: Seed, known: Declared, name: str) -> Column:
    """The type that the row gives a column: the feed's, else the dump's.

    None if the feed leaves it to the values.
    """
    if name in known:
        return known[name] if known[name].type else Column(token=Token.NULL)
    own = seed.columns.get(name)
    return Column(type=own) if own else Column(token=Token.NULL)


def _row(
    message: RawMessage, seed: Seed, format_name: str, after: dict[str, str | None], shape: dict[str, Column]
) -> Row:
    place = (seed.source, seed.database, seed.schema, seed.table, "row", str(Op.READ))
    identity = key_values(seed.key, after) or tuple(image_parts(after))
    row: Row = dict.fromkeys(STAGED.names)
    row.update(
        change_id=digest((*place, seed.sequence, *identity)),
        source=message.source,
        format=format_name,
        kind="row",
        op=str(Op.READ),
        database=seed.database,
        schema=seed.schema,
        table=seed.table,
        sequence=seed.sequence,
        position=seed.sequence,
        topic=message.topic,
        partition=message.partition,
        offset=message.offset,
        ordinal=0,
        after=after,
        partial=False,
        reason=SEEDED,
        shape=shape,
    )
    return row


def text_as(text: str | None, own: str | None, target: str | None, zone: str) -> str | None:
    """Convert the text of a dump's cell from its `own` type to the type `target`.

    Unchanged where it does not fit.
    """
    if text is None or target is None or target in ("string", own):
        return text
    if own == "boolean" and (target in INTEGERS or target.startswith("decimal")):
        return {"true": "1", "false": "0"}.get(text, text)
    if target == "boolean":
        return declared_text(target, Token.TEXT, _TRUTHS.get(text.lower(), text))
    if target == "timestamp":
        return _instant(text, zone)
    if target == "timestamp_ntz":
        return _wall(text, zone) if own == "timestamp" else wall_of_text(text)
    if target == "date":
        wall = wall_of_text(_wall(text, zone) if own == "timestamp" else text)
        return wall[:10] if _MIDNIGHT.search(wall) else text
    if target == "binary":
        return _base64(text)
    return declared_text(target, Token.TEXT, text)


def _instant(text: str, zone: str) -> str:
    found = _ZONED.fullmatch(text.strip())
    if found is None:
        return instant_of_wall(text, zone)
    wall, sign, hours, minutes = found.groups()
    instant = instant_of_wall(wall, "UTC")
    if sign is None or not instant.endswith("Z"):
        return instant
    offset = timedelta(hours=int(hours), minutes=int(minutes or 0)) * (-1 if sign == "-" else 1)
    return _moved(instant, lambda moment: moment.replace(tzinfo=UTC) - offset, "Z") or text


def _wall(text: str, zone: str) -> str:
    """An instant as wall time of a zone."""
    return (
        text.endswith("Z")
        and _moved(text, lambda moment: moment.replace(tzinfo=UTC).astimezone(ZoneInfo(zone)), "")
    ) or text


def _moved(instant: str, move: Callable[[datetime], datetime], ending: str) -> str | None:
    body, point, fraction = instant.removesuffix("Z").partition(".")
    try:
        moment = move(datetime.fromisoformat(body))
    except (ValueError, OverflowError):
        return None
    return f"{moment.year:04d}-{moment:%m-%dT%H:%M:%S}{point}{fraction}{ending}"


def _base64(text: str) -> str:
    """PostgreSQL's hexadecimal text as base64; other texts are base64 already."""
    if not text.startswith("\\x"):
        return text
    try:
        return base64.b64encode(binascii.unhexlify(text[2:])).decode()
    except binascii.Error:
        return text
