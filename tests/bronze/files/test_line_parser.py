from __future__ import annotations

import json
import tracemalloc
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bronze.files.line_parser import (
    MAX_LINE_BYTES,
    Block,
    Layout,
    LongLine,
    Messages,
    from_kcat,
    from_lines,
    group_lines,
    split_lines,
)
from framework.contracts.messages import BAD_COORDINATES, TOO_LONG

BYTES = st.lists(
    st.sampled_from([b"a", b"\r", b"\n", b" ", b"\xff", b"\x00", b"\xe6\x95\xb0"]), max_size=40
).map(b"".join)


def lines(*chunks: bytes) -> list[tuple[int, bytes | LongLine]]:
    return list(split_lines(chunks))


def kcat(line: bytes) -> Messages:
    return from_kcat(Block([7], [line]), "a.json")


def test_line_keeps_its_exact_bytes() -> None:
    assert lines(b' {"a":1}\t\n\xff\xfe\x00\n') == [(1, b' {"a":1}\t'), (2, b"\xff\xfe\x00")]


def test_one_carriage_return_before_the_line_feed_is_taken_off() -> None:
    assert lines(b"a\r\nb\r\r\nc\rd\n") == [(1, b"a"), (2, b"b\r"), (3, b"c\rd")]


def test_last_line_may_lack_its_line_feed() -> None:
    assert lines(b"a\nb") == [(1, b"a"), (2, b"b")]
    assert lines(b"a\nb\r") == [(1, b"a"), (2, b"b\r")]


def test_empty_line_is_counted_and_is_no_message() -> None:
    assert lines(b"\n\na\n\r\n \n\n") == [(3, b"a"), (5, b" ")]


def test_empty_file_has_no_message() -> None:
    assert lines() == []
    assert lines(b"") == []


def test_line_may_span_many_chunks() -> None:
    assert lines(b"a", b"b", b"c\r", b"\nd", b"e\n") == [(1, b"abc"), (2, b"de")]


@pytest.mark.parametrize(
    ("chunks", "found"),
    [
        ([b"a\n12", b"34", b"56\nb"], [(1, b"a"), (2, LongLine(6)), (3, b"b")]),
        ([b"a\n\n123456\nb\n"], [(1, b"a"), (3, LongLine(6)), (4, b"b")]),
        ([b"123456", b"7\n12345\n"], [(1, LongLine(7)), (2, b"12345")]),
        ([b"a\n1234", b"56", b"7"], [(1, b"a"), (2, LongLine(7))]),
    ],
)
def test_line_longer_than_the_limit_is_counted_and_let_go_and_the_others_are_read(
    chunks: list[bytes], found: list[tuple[int, bytes | LongLine]]
) -> None:
    assert list(split_lines(chunks, longest=5)) == found


@pytest.mark.parametrize("layout", [from_lines, from_kcat])
def test_line_that_no_row_can_hold_is_a_message_without_bytes_that_says_so(layout: Layout) -> None:
    messages = layout(
        Block([1, 7], [b'{"topic":"t","partition":3,"offset":9}', LongLine(524_288_000)]), "a.json"
    )
    assert (messages.topic[1], messages.partition[1], messages.offset[1], messages.line) == (
        "a.json",
        0,
        7,
        [1, 7],
    )
    assert (messages.key[1], messages.value[1], messages.headers) == (
        None,
        None,
        [None, [(TOO_LONG, b"524288000")]],
    )


@given(BYTES, st.integers(1, 7))
def test_chunk_borders_change_nothing(content: bytes, size: int) -> None:
    chunks = [content[at : at + size] for at in range(0, len(content), size)]
    assert lines(*chunks) == lines(content)


@given(BYTES)
def test_lines_are_those_of_a_plain_split(content: bytes) -> None:
    *whole, last = content.split(b"\n")
    ended = [line.removesuffix(b"\r") for line in whole] + [last]
    assert lines(content) == [(number, line) for number, line in enumerate(ended, 1) if line]


def test_block_is_bounded_by_rows_and_bytes() -> None:
    numbered: list[tuple[int, bytes | LongLine]] = [(number, b"x" * 10) for number in range(1, 8)]
    assert [block.numbers for block in group_lines(numbered, rows=3, size=1000)] == [
        [1, 2, 3],
        [4, 5, 6],
        [7],
    ]
    assert [block.numbers for block in group_lines(numbered, rows=100, size=25)] == [
        [1, 2],
        [3, 4],
        [5, 6],
        [7],
    ]


def test_huge_line_is_a_block_of_its_own() -> None:
    numbered: list[tuple[int, bytes | LongLine]] = [(1, b"a"), (2, b"b" * 100), (3, b"c")]
    assert [block.numbers for block in group_lines(numbered, size=50)] == [[1], [2], [3]]


def test_lines_take_file_and_line_number_as_coordinates() -> None:
    messages = from_lines(Block([1, 3], [b"a", b"b"]), "sub/数量.txt")
    assert messages.topic == ["sub/数量.txt", "sub/数量.txt"]
    assert (messages.partition, messages.offset, messages.line) == ([0, 0], [1, 3], [1, 3])
    assert (messages.key, messages.value, messages.timestamp, messages.headers) == (
        [None, None],
        [b"a", b"b"],
        [None, None],
        [None, None],
    )


def test_kcat_object_gives_coordinates_and_bytes() -> None:
    line = (
        '{"topic":"t","partition":3,"offset":9,"tstype":"create","ts":1700000000123,"broker":1,'
        '"headers":["h","1","h","2","n",null],"key":"k","payload":"{\\"数\\":1.50}\\u0000"}'
    )
    messages = kcat(line.encode())
    assert (messages.topic, messages.partition, messages.offset) == (["t"], [3], [9])
    assert messages.timestamp == [1_700_000_000_123_000]
    assert messages.headers == [[("h", b"1"), ("h", b"2"), ("n", None)]]
    assert (messages.key, messages.value, messages.line) == ([b"k"], ['{"数":1.50}\0'.encode()], [7])


def test_the_highest_offset_has_one_behind_it() -> None:
    """An epoch can begin behind each message that has landed, at an offset that a table holds."""
    assert kcat(b'{"topic":"t","partition":0,"offset":9223372036854775806}').offset == [2**63 - 2]


def test_kcat_null_payload_is_a_null_value() -> None:
    messages = kcat(b'{"topic":"t","partition":0,"offset":0,"key":"","payload":null}')
    assert (messages.key, messages.value, messages.headers, messages.timestamp) == (
        [b""],
        [None],
        [None],
        [None],
    )


@pytest.mark.parametrize("part", [b'"ts":-1', b'"tstype":"unknown","ts":0', b'"ts":null'])
def test_kcat_without_a_time_has_no_timestamp(part: bytes) -> None:
    messages = kcat(b'{"topic":"t","partition":0,"offset":0,' + part + b"}")
    assert (messages.topic, messages.timestamp) == (["t"], [None])


def test_kcat_decoded_payload_keeps_its_json_text() -> None:
    messages = kcat(b'{"topic":"t","partition":0,"offset":0,"key":12,"payload":{"price": 9.90, "n":1e400}}')
    assert (messages.key, messages.value) == ([b"12"], [b'{"price": 9.90, "n":1e400}'])


def test_a_header_under_one_of_our_names_is_renamed() -> None:
    names = [TOO_LONG, "mainstem.mainstem.seed", "x", "Mainstem.seed"]
    line = {
        "topic": "t",
        "partition": 0,
        "offset": 1,
        "headers": [part for name in names for part in (name, "v")],
        "payload": "x",
    }
    headers = kcat(json.dumps(line).encode()).headers[0] or []
    assert [name for name, _ in headers] == [
        f"mainstem.{TOO_LONG}",
        "mainstem.mainstem.mainstem.seed",
        "x",
        "Mainstem.seed",
    ]


@pytest.mark.parametrize(
    "line",
    [
        b"not json",
        b"  ",
        b"null",
        b"[]",
        b'{"topic":"t","partition":0}',
        b'{"topic":"t","partition":"0","offset":1}',
        b'{"topic":1,"partition":0,"offset":1}',
        b'{"topic":"","partition":0,"offset":1}',
        b'{"topic":"t","partition":0,"offset":1.0}',
        b'{"topic":"t","partition":true,"offset":1}',
        b'{"topic":"t","partition":-1,"offset":1}',
        b'{"topic":"t","partition":0,"offset":-1}',
        b'{"topic":"t","partition":2147483648,"offset":1}',
        b'{"topic":"t","partition":0,"offset":9223372036854775807}',
        b'{"topic":"t","partition":0,"offset":9223372036854775808}',
        b'{"topic":"t","partition":0,"offset":1,"ts":9e9}',
        b'{"topic":"t","partition":0,"offset":1,"ts":253402300800000}',
        b'{"topic":"t","partition":0,"offset":1,"payload":"\\ud800"}',
        b'{"topic":"t","partition":0,"offset":1,"payload":"\xff"}',
        b'{"topic":"t","partition":0,"offset":1,"unknown":"\xff"}',
        b'{"topic":"t","partition":0,"offset":1,"headers":["k"]}',
        b'{"topic":"t","partition":0,"offset":1,"headers":[null,"v"]}',
        b'{"topic":"t","partition":0,"offset":1}{"topic":"t","partition":0,"offset":2}',
        b'{"topic":"t","partition":0,"offset":1,"payload":' + b"[" * 100_000,
        b'\xef\xbb\xbf\xef\xbb\xbf{"topic":"t","partition":0,"offset":1}',
    ],
)
def test_line_that_is_no_kcat_object_keeps_bytes_and_file_coordinates(line: bytes) -> None:
    messages = kcat(line)
    assert (messages.topic, messages.partition, messages.offset, messages.line) == (["a.json"], [0], [7], [7])
    assert (messages.value, messages.key, messages.timestamp) == ([line], [None], [None])
    ((name, reason),) = messages.headers[0] or []
    assert (name, bool(reason)) == (BAD_COORDINATES, True)


@pytest.mark.parametrize(
    ("file", "topic"),
    [
        ("orders", "./orders"),
        ("shop.db.orders", "./shop.db.orders"),
        ("shop.db.log", "./shop.db.log"),
        ("orders.json", "orders.json"),
        ("shop.db.orders.JSON.gz", "shop.db.orders.JSON.gz"),
        ("day 1", "day 1"),
        ("2024/orders", "2024/orders"),
    ],
)
def test_a_bad_line_of_a_file_named_like_its_topic_has_coordinates_of_its_own(file: str, topic: str) -> None:
    messages = from_kcat(Block([1, 2], [b'{"topic":"orders","partition":0,"offset":2}', b"bad"]), file)
    assert (messages.topic, messages.offset, messages.line) == (["orders", topic], [2, 2], [1, 2])


def test_a_byte_order_mark_before_a_kcat_object_is_no_part_of_it() -> None:
    messages = kcat(b'\xef\xbb\xbf{"topic":"t","partition":0,"offset":1,"payload":"a"}')
    assert (messages.topic, messages.offset, messages.value) == (["t"], [1], [b"a"])


@given(st.binary(max_size=60))
def test_any_bytes_are_one_message(line: bytes) -> None:
    messages = kcat(line)
    columns = (
        messages.topic,
        messages.partition,
        messages.offset,
        messages.timestamp,
        messages.key,
        messages.value,
        messages.headers,
    )
    assert {len(column) for column in columns} == {1}


def test_reason_of_a_bad_line_holds_no_value_of_it() -> None:
    messages = kcat(b'{"topic":"t","partition":"secret","offset":1}')
    assert b"secret" not in (messages.headers[0] or [("", b"")])[0][1]  # type: ignore[operator]


def test_memory_for_a_line_of_500_mb_is_that_of_the_longest_one_that_a_row_holds() -> None:
    chunk = b"x" * (4 * 1024 * 1024)
    tracemalloc.start()
    found = list(split_lines([b"a\n", *[chunk] * 125, b"\nb"]))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found == [(1, b"a"), (2, LongLine(125 * len(chunk))), (3, b"b")]
    assert peak < MAX_LINE_BYTES + 4 * len(chunk)


@pytest.mark.benchmark
@pytest.mark.parametrize(
    "line", [b"x" * 499 + b"\n", b"x" * (20 * 1024 * 1024) + b"\n"], ids=["many lines", "huge lines"]
)
def test_memory_stays_flat_for_200_mb(line: bytes) -> None:
    def chunks() -> Iterator[bytes]:
        size = 4 * 1024 * 1024
        content = memoryview(line * max(1, 50_000_000 // len(line)))
        for _ in range(4):
            for at in range(0, len(content), size):
                yield bytes(content[at : at + size])

    tracemalloc.start()
    base = 50_000_000
    read = sum(sum(map(len, from_lines(block, "a").value)) for block in group_lines(split_lines(chunks())))  # type: ignore[arg-type]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert read > 160_000_000
    assert peak - base < 64 * 1024 * 1024 + 2 * (len(line) if len(line) > 1000 else 0)
