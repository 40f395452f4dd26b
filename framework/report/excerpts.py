"""The beginning of raw bytes, as text that can be stored and shown."""

from __future__ import annotations

import codecs

from framework.report.model import Excerpt


def excerpt(start: bytes | bytearray | None, byte_count: int | None) -> Excerpt | None:
    r"""What can be shown of a value of `byte_count` bytes that begins with `start`; None for no value.

    A character that the cut went through is left out. Bytes that are no UTF-8 are written `\xNN`.
    """
    if start is None:
        return None
    data = bytes(start)
    total = len(data) if byte_count is None else byte_count
    is_cut = total > len(data)
    try:
        return Excerpt(codecs.getincrementaldecoder("utf-8")().decode(data, not is_cut), total, is_cut)
    except UnicodeDecodeError:
        return Excerpt(data.decode("utf-8", "backslashreplace"), total, is_cut, is_text=False)
