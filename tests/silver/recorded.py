"""The recorded messages of every format: exact bytes beside what they mean, and one good message to spoil."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from msgspec import structs

from framework.contracts.events import Event, Op, RowChange
from framework.contracts.messages import RawMessage
from framework.contracts.quarantine_reasons import Malformed
from silver.decoding.format import Context, Format

FOLDER = Path(__file__).parents[1] / "fixtures" / "formats"
SCENARIOS = sorted(
    path.relative_to(FOLDER).as_posix().removesuffix(".raw") for path in FOLDER.glob("*/*.raw")
)
NULL = b"\\N"
SPOT = "a spot for cells"


def format_of(name: str) -> Format:
    found = import_module(f"silver.formats.{name}").FORMAT
    assert isinstance(found, Format)
    return found


def context_of(scenario: str, fmt: Format) -> Context:
    path = FOLDER / f"{scenario}.context.json"
    given = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    keys = tuple(given["keys"]) if "keys" in given else None
    codecs = given.get("codecs", {})
    zone = given.get("timezone", "UTC")
    return Context("feed", fmt.options(**given.get("options", {})), zone, lambda *_: keys, lambda *_: codecs)


def lines_of(path: Path) -> list[bytes]:
    return path.read_bytes().removesuffix(b"\n").split(b"\n")


def messages_of(scenario: str) -> list[RawMessage]:
    """The messages of a scenario: `\\N` is a null value, an empty line of `.keys` is a null key."""
    values = lines_of(FOLDER / f"{scenario}.raw")
    path = FOLDER / f"{scenario}.keys"
    keys = lines_of(path) if path.exists() else []
    keys += [b""] * (len(values) - len(keys))
    pairs = zip(keys, values, strict=True)
    return [
        RawMessage("feed", "topic", 0, n, None, key or None, None if value == NULL else value)
        for n, (key, value) in enumerate(pairs)
    ]


def recordings(name: str) -> Iterator[tuple[RawMessage, Context]]:
    """Every recorded message of a format, with its context."""
    fmt = format_of(name)
    for scenario in SCENARIOS:
        if scenario.startswith(f"{name}/"):
            context = context_of(scenario, fmt)
            yield from ((message, context) for message in messages_of(scenario))


@dataclass(frozen=True, slots=True)
class Sample:
    """A good insert of one format. `document` is its JSON; one image in it has the member `SPOT`."""

    format: Format
    context: Context
    key: bytes | None
    document: Any
    column: str
    """A column of the image that the message declares with an integer type; empty where the feed declares none."""

    def value(self, cells: bytes = b'"cell":"joe"') -> bytes:
        """The message with these members in its image."""
        spot = json.dumps({SPOT: 0})[1:-1].encode()
        text = json.dumps(self.document).encode()
        assert text.count(spot) == 1
        return text.replace(spot, cells)

    def with_cell(self, column: str, value: object) -> bytes:
        """The message with another value in one column of its image."""
        document = copy.deepcopy(self.document)
        (image,) = (found for found in objects_in(document) if SPOT in found)
        image[column] = value
        return json.dumps(document).encode()

    def decode(self, value: bytes | None) -> Sequence[Event]:
        return self.format.decode(RawMessage("feed", "topic", 0, 0, None, self.key, value), self.context)

    def after(self, value: bytes) -> dict[str, str | None]:
        (event,) = self.decode(value)
        assert isinstance(event, RowChange)
        assert event.after is not None
        return dict(event.after)


def sample_of(name: str) -> Sample:
    """The recorded insert of a format that shows most: a declared whole number where there is one, and many columns."""
    samples = [
        sample
        for message, context in recordings(name)
        if (sample := _sample(format_of(name), message, context)) is not None
    ]
    return max(samples, key=lambda sample: (sample.column != "", len(sample.after(sample.value()))))


def _sample(fmt: Format, message: RawMessage, context: Context) -> Sample | None:
    try:
        (event,) = fmt.decode(message, context)
    except (Malformed, ValueError):
        return None
    is_insert = (
        isinstance(event, RowChange) and event.op is Op.INSERT and event.half is None and not event.partial
    )
    if not is_insert or message.value is None:
        return None
    for document, image in _spots(json.loads(message.value)):
        try:
            (spotted,) = fmt.decode(structs.replace(message, value=json.dumps(document).encode()), context)
        except Malformed:
            continue
        if isinstance(spotted, RowChange) and SPOT in (spotted.after or ()):
            whole = ("tinyint", "int", "bigint")
            found = [
                n
                for n, c in event.columns.items()
                if c.type in whole and image.get(n) is not None and n not in (event.keys or ())
            ]
            return Sample(fmt, context, message.key, document, found[0] if found else "")
    return None


def _spots(document: Any) -> Iterator[tuple[Any, dict[str, Any]]]:
    """Copies of a document, each with the member `SPOT` in another one of its objects, and that object."""
    for nth in range(len(objects_in(document))):
        spotted = copy.deepcopy(document)
        place = objects_in(spotted)[nth]
        place[SPOT] = 0
        yield spotted, place


def objects_in(node: Any) -> list[dict[str, Any]]:
    """All objects of a document."""
    inner = node.values() if isinstance(node, dict) else node if isinstance(node, list) else ()
    return [
        *([node] if isinstance(node, dict) else []),
        *(found for value in inner for found in objects_in(value)),
    ]
