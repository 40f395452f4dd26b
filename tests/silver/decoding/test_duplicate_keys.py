from __future__ import annotations

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from framework.contracts.quarantine_reasons import Malformed, Reason
from silver.decoding.duplicate_keys import is_as_written, refuse_repeated_names, written_parts


class Part(msgspec.Struct):
    op: str
    cells: dict[str, Raw] | None = None


class Message(msgspec.Struct):
    part: Part
    parts: list[Part | None] | None = None


def reason(document: str, kind: object = Message) -> Reason | None:
    try:
        refuse_repeated_names(document.encode(), kind)
    except Malformed as error:
        return error.reason
    return None


@pytest.mark.parametrize(
    "document",
    [
        '{"part": {"op": "c", "cells": {"id": 1, "id": 2}}}',
        '{"part": {"op": "c", "cells": {"id": 1, "id": "1"}}}',
        '{"part": {"op": "c", "cells": {"price": 1.1, "price": 1.10}}}',
        '{"part": {"op": "c", "cells": {"id": 1, "id": null}}}',
        '{"part": {"op": "c", "op": "u"}}',
        '{"part": {"op": "c"}, "part": {"op": "u"}}',
        '{"part": {"op": "c"}, "parts": [null, {"op": "c", "cells": {"a": 1, "b": 1, "a": 2}}]}',
        '{"part": {"op": "c"}, "unread": 1, "unread": 2}',
        '{"part": {"op": "c", "cells": {"id": 1, "\\u0069d": 2}}}',
        '{"part": {"op": "c", "cells": {"id": 1, "id": 2, "note" : "one name apart from its colon"}}}',
        '{"part": {"op": "c", "cells": {"id": 1, "id": 2, "note": "\\u0022:"}}}',
        '{"part": {"op": "c", "cells": {"id": 1, "id": 2, "note": "\\"\\u003A"}}}',
    ],
)
def test_a_name_with_two_values_is_refused(document: str) -> None:
    assert reason(document) is Reason.DUPLICATE_NAME


@pytest.mark.parametrize(
    "document",
    [
        '{"part": {"op": "c", "cells": {"id": 1, "Id": 2}}}',
        '{"part": {"op": "c", "cells": {"id": 1, "id": 1}}}',
        '{"part": {"op": "c", "cells": {"doc": {"a": 1, "a": 2}}}}',
        '{"part": {"op": "c", "cells": {"doc": [{"a": 1, "a": 2}]}}}',
        '{"part": {"op": "c", "cells": {"note": "\\"id\\":1,\\"id\\":2"}}}',
        '{"part": {"op": "c", "cells": {"big": 1e400, "bigger": 1e500}}}',
    ],
)
def test_names_once_equal_repeats_and_json_values_pass(document: str) -> None:
    assert reason(document) is None


def test_what_the_decoder_left_unread_is_json_too() -> None:
    assert reason('{"part": {"op": "c"}, "unread": "\\q", "unread": 1}') is Reason.NOT_JSON
    with pytest.raises(Malformed) as caught:
        refuse_repeated_names(b'{"part": {"op": "c"}, "unread": "\xff"}', Message)
    assert caught.value.reason is Reason.ENCODING


@pytest.mark.parametrize(
    "document", [b'{"a":-0}', b'{"schema":{},"a":-0}', b'{"schema":"column","a":-0}', b'{"schema":[-0]}']
)
def test_a_zero_with_a_sign_is_not_as_this_reader_would_write_it(document: bytes) -> None:
    assert not is_as_written(document)
    assert is_as_written(document.replace(b"-0", b"-1"))


NAMES = st.text('ab":\\ é', max_size=3)
MEMBERS = st.lists(st.tuples(NAMES, st.integers(0, 1) | NAMES), max_size=4)


@given(MEMBERS, st.sampled_from((",", " , ")), st.sampled_from((":", " : ")), st.booleans())
def test_counting_never_hides_a_repeat(
    members: list[tuple[str, object]], comma: str, colon: str, ascii_only: bool
) -> None:
    cells = comma.join(
        json.dumps(n, ensure_ascii=ascii_only) + colon + json.dumps(v, ensure_ascii=ascii_only)
        for n, v in members
    )
    values: dict[str, set[str]] = {}
    for name, value in members:
        values.setdefault(name, set()).add(json.dumps(value))
    expected = Reason.DUPLICATE_NAME if any(len(found) > 1 for found in values.values()) else None
    assert reason('{"part":{"op":"c","cells":{' + cells + "}}}") is expected


def test_the_parts_of_a_message_with_a_schema_block_are_read_once() -> None:
    parts = written_parts(b'{"schema":{"a":1},"payload":{"id":1,"price":1.10},"version":"1.0.0"}')
    assert parts is not None
    assert bytes(parts.schema) == b'{"a":1}'  # type: ignore[arg-type]
    assert (parts.payload["id"], bytes(parts.payload["price"]), parts.version) == (1, b"1.10", "1.0.0")


def test_parts_that_are_missing_stay_missing() -> None:
    parts = written_parts(b'{"schema":{"a":1}}')
    assert parts is not None
    assert (parts.payload, parts.version) == (msgspec.UNSET, msgspec.UNSET)


@pytest.mark.parametrize(
    "document",
    [
        '{"schema":{"a":1},"payload":{"id":1,"id":2}}',
        '{"schema":{"a":1,"a":2},"payload":{"id":1}}',
        '{"schema":{"a":1},"payload":{"id":1},"payload":{"id":2}}',
        '{"schema":{"a":1},"payload":{"id":1},"schema":{"a":2}}',
        '{"schema":{"a":1},"payload":{"id":1},"more":1}',
        '{"schema":{"a":1}, "payload":{"id":1}}',
        '{"schema":{"a":1},"payload":{"id":-0}}',
        '{"schema":{"a":-0},"payload":{"id":1}}',
        '{"schema":{"a":1},"payload":{"\\u0069d":1}}',
        '{"schema":{"a":1},"payload":{"id":1}',
        '{"payload":{"id":1}}',
        "",
    ],
)
def test_a_message_with_a_repeated_member_or_another_spelling_has_no_parts(document: str) -> None:
    assert written_parts(document.encode()) is None
