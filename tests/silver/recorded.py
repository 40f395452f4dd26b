"""The recorded messages of every format: exact bytes beside what they mean, and one good message to spoil."""

from __future__ import annotations

import copy
import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
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
Cell = tuple[bytes, bytes]
"""A column's name and value as JSON."""
CELL: Cell = (b'"cell"', b'"joe"')


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
class Listed:
    """An image that is a list of columns: the members of an element that hold the name and the value."""

    name: str
    value: str


@dataclass(frozen=True, slots=True)
class Sample:
    """A good insert of one format, whose image has a spot that takes other cells."""

    format: Format
    context: Context
    key: bytes | None
    document: Any
    """The message. `SPOT` is a member of its image, or the name of a column in it."""
    column: str
    """A column of the image that the message declares with an integer type;
    empty where the feed declares none.
    """
    listed: Listed | None = None
    """None where the image is an object."""

    def value(self, *cells: Cell, is_compact: bool = False) -> bytes:
        """The message with these cells in its spot; compact as programs write JSON,
        without spaces and escapes.
        """
        separators, colon = ((",", ":"), ":") if is_compact else ((", ", ": "), ": ")

        def dumped(node: Any) -> str:
            return json.dumps(node, separators=separators, ensure_ascii=not is_compact)

        text = dumped(self.document).encode()
        written = cells or (CELL,)
        if self.listed is None:
            spot = f"{dumped(SPOT)}{colon}0".encode()
            into = b",".join(name + b":" + cell for name, cell in written)
        else:
            spot = dumped(self._element(0)).encode()
            into = b",".join(
                dumped(self._element("a value"))
                .encode()
                .replace(dumped(SPOT).encode(), name)
                .replace(dumped("a value").encode(), cell)
                for name, cell in written
            )
        assert text.count(spot) == 1
        return text.replace(spot, into)

    def _element(self, value: object) -> dict[str, Any]:
        """The spot of an image that is a list, with another value."""
        assert self.listed is not None
        (element,) = (found for found in objects_in(self.document) if found.get(self.listed.name) == SPOT)
        return {**element, self.listed.value: value}

    def with_cell(self, column: str, value: object) -> bytes:
        """The message with another value in one column of its image."""
        document = copy.deepcopy(self.document)
        for image in self.images(document):
            if isinstance(image, dict):
                image[column] = value
            else:
                assert self.listed is not None
                (element,) = (found for found in image if found[self.listed.name] == column)
                element[self.listed.value] = value
        return json.dumps(document).encode()

    def without_nested_cells(self, *but: str) -> Sample:
        """The sample without the cells that are objects and arrays, except those of these columns."""
        document = copy.deepcopy(self.document)
        for image in self.images(document):
            if isinstance(image, dict):
                for name in [
                    n for n, cell in image.items() if isinstance(cell, dict | list) and n not in but
                ]:
                    del image[name]
            else:
                assert self.listed is not None
                image[:] = [e for e in image if not isinstance(e.get(self.listed.value), dict | list)]
        return replace(self, document=document)

    def images(self, document: Any) -> list[Any]:
        """The image with the spot in such a document: an object, or a list of columns."""
        if self.listed is None:
            return [found for found in objects_in(document) if SPOT in found]
        name = self.listed.name
        return [found for found in lists_in(document) if any(element.get(name) == SPOT for element in found)]

    def decode(self, value: bytes | None) -> Sequence[Event]:
        return self.format.decode(RawMessage("feed", "topic", 0, 0, None, self.key, value), self.context)

    def after(self, value: bytes) -> dict[str, str | None]:
        (event,) = self.decode(value)
        assert isinstance(event, RowChange)
        assert event.after is not None
        return dict(event.after)


@cache
def sample_of(name: str) -> Sample:
    """The recorded insert of a format that shows most:
    a declared whole number where there is one, and many columns.
    """
    samples = [
        sample
        for message, context in recordings(name)
        if (sample := _sample(format_of(name), message, context)) is not None
    ]
    assert samples, (
        f"no message in tests/fixtures/formats/{name} is a whole insert whose image is a JSON object, or a "
        f"list of"
        " objects with the name and the value of a column: write one into a scenario"
    )
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
    document = json.loads(message.value)
    for spotted, cells, listed in (*_object_spots(document), *_list_spots(document, set(event.after or ()))):
        try:
            (found,) = fmt.decode(structs.replace(message, value=json.dumps(spotted).encode()), context)
        except Malformed:
            continue
        if not isinstance(found, RowChange) or found.after is None or SPOT not in found.after:
            continue
        if listed and (found.after[SPOT] != "0" or found.columns[SPOT].type not in (None, "string")):
            continue  # values of other types have a canonical text that is not the sent one
        whole = ("tinyint", "int", "bigint")
        columns = [
            n
            for n, c in event.columns.items()
            if c.type in whole and cells.get(n) is not None and n not in (event.keys or ())
        ]
        return Sample(fmt, context, message.key, spotted, columns[0] if columns else "", listed)
    return None


_Spotted = tuple[Any, Mapping[str, Any], Listed | None]
"""A document with a spot, the cells of the image that has it, and how the image is a list, if it is one."""


def _object_spots(document: Any) -> Iterator[_Spotted]:
    """Copies of a document, each with the member `SPOT` in another one of its objects."""
    for nth in range(len(objects_in(document))):
        spotted = copy.deepcopy(document)
        image = objects_in(spotted)[nth]
        image[SPOT] = 0
        yield spotted, image, None


def _list_spots(document: Any, columns: set[str]) -> Iterator[_Spotted]:
    """Copies of a document, each with one more element in a list that has the names of all these columns.

    The element has a name and a value alone, or also what another element has (a type).
    """
    for nth, elements in enumerate(lists_in(document)):
        members = dict.fromkeys(member for element in elements for member in element)
        for name, value in itertools.permutations(members, 2):
            if {str(element.get(name)) for element in elements} != columns:
                continue
            cells = {element[name]: element.get(value) for element in elements}
            for pattern in ({}, *elements):
                spotted = copy.deepcopy(document)
                lists_in(spotted)[nth].append({**pattern, name: SPOT, value: 0})
                yield spotted, cells, Listed(name, value)


def lists_in(node: Any) -> list[list[dict[str, Any]]]:
    """All lists of a document that hold objects alone."""
    inner = node.values() if isinstance(node, dict) else node if isinstance(node, list) else ()
    is_of_objects = isinstance(node, list) and bool(node) and all(isinstance(each, dict) for each in node)
    return [*([node] if is_of_objects else []), *(found for value in inner for found in lists_in(value))]


def objects_in(node: Any) -> list[dict[str, Any]]:
    """All objects of a document."""
    inner = node.values() if isinstance(node, dict) else node if isinstance(node, list) else ()
    return [
        *([node] if isinstance(node, dict) else []),
        *(found for value in inner for found in objects_in(value)),
    ]
