"""Decoding a message with plain Python values where these are exact, else from its bytes.

Plain values take half the time. Where one of them says less than its bytes did, the message is decoded once
more, with every value as bytes: this second reading decides, and it also gives the reason when the message is
malformed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import msgspec
from msgspec import Raw

from framework.contracts.events import Event
from silver.decoding.cells import NeedsExactDecoding, NumberText, S
from silver.decoding.duplicate_keys import is_as_written, refuse_repeated_names
from silver.decoding.interning import cached_by_bytes
from silver.decoding.json_reader import read_json

_T = TypeVar("_T")
_NEGATIVE_ZERO = re.compile(rb"[:,\[\s]-0(?![.eE])")


@dataclass(frozen=True, slots=True)
class DualDecoder(Generic[_T]):
    """Two decoders of one envelope: with plain cells, and with cells that are bytes.

    `is_nested`: plain cells may hold objects that the format reads.
    """

    plain: msgspec.json.Decoder[_T]
    exact: msgspec.json.Decoder[_T]
    is_nested: bool = False

    def events(self, value: bytes | None, interpret: Callable[[_T], Sequence[Event]]) -> Sequence[Event]:
        """The events that `interpret` makes of the plain cells if they are exact, else of the bytes."""
        try:
            return interpret(self.plain_of(value))
        except NeedsExactDecoding:
            return interpret(read_json(self.exact, value))

    def plain_of(self, value: bytes | None) -> _T:
        """The message with plain cells.

        Raises:
            NeedsExactDecoding: The plain cells are not exact, or the bytes are no such message.
            Malformed: An object names a member twice with different values.
        """
        if value is None:
            raise NeedsExactDecoding
        try:
            envelope = self.plain.decode(value)
        except (msgspec.MsgspecError, ValueError, RecursionError):
            raise NeedsExactDecoding from None
        if not is_as_written(value):
            if self.is_nested or _NEGATIVE_ZERO.search(value):
                raise NeedsExactDecoding
            refuse_repeated_names(value, self.exact.type)
        return envelope


def dual_decoder(envelope: Any, *, is_nested: bool = False) -> DualDecoder[Any]:
    """Both decoders of an envelope, a `msgspec.Struct` that is generic in the type of its cells."""
    return DualDecoder(
        msgspec.json.Decoder(envelope[Any], float_hook=NumberText),
        msgspec.json.Decoder(envelope[Raw]),
        is_nested,
    )


def schema_block_cache(
    decoder: msgspec.json.Decoder[S], interpret: Callable[[S], _T]
) -> Callable[[Raw | S], _T]:
    """A function that interprets a message's schema block and reads equal bytes only once.

    The block is given as bytes or already read. The function raises `NeedsExactDecoding` for bytes that
    cannot be read; decoding the whole message then says why.
    """

    def read(block: bytes) -> _T:
        try:
            return interpret(decoder.decode(block))
        except (msgspec.MsgspecError, ValueError, RecursionError):
            raise NeedsExactDecoding from None

    known = cached_by_bytes(read)
    return lambda block: known(bytes(block)) if isinstance(block, Raw) else interpret(block)
