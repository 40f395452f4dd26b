"""Usual spellings take a short way: it must lead to the same place as the long one,
which odd spellings still take.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from framework.contracts.quarantine_reasons import Malformed
from silver.changes.adjacent_halves import merge_adjacent
from silver.changes.staged_rows import Row
from silver.decoding import declared_step
from silver.decoding.cells import NeedsExactDecoding, NumberText, read_cell
from silver.decoding.dual_decoder import DualDecoder
from silver.envelopes.debezium.placeholders import WORD
from silver.formats import FORMATS
from silver.values.canonical import (
    MAX_DIGITS,
    declared_text,
    epoch_parts,
    instant_of_wall,
    number_text,
    wall_of_text,
)
from tests.amounts import IS_LARGE
from tests.silver.recorded import Sample, recordings, sample_of

MANY = settings(max_examples=400, derandomize=True, deadline=None)
DIGITS = st.text("0123456789", max_size=45)
NEARLY_WALLS = st.builds(
    lambda day, mark, time, rest: f"{day}{mark}{time}{rest}",
    st.sampled_from(
        (
            "2024-02-29",
            "2023-02-29",
            "0000-00-00",
            "0001-01-01",
            "9999-12-31",
            "2024-2-9",
            "2024-W09",
            "20240229",
            "2024-02-2x",
        )
    ),
    st.sampled_from((" ", "T", "t", "  ", "-", "")),
    st.sampled_from(
        (
            "10:00:00",
            "24:00:00",
            "23:59:60",
            "23:59:59",
            "1:02:03",
            "10:00",
            "",
            "00:00:0x",
            "+1:00:00",
            "2²:00:00",
            "01:30:00Z",
        )
    ),
    st.sampled_from(("", ".", ".0", ".123456789", ",5", ".5Z", ".٣", "Z", "+08:00", " UTC", "\n")),
)


@MANY
@given(NEARLY_WALLS)
def test_a_wall_time_is_read_alike_with_and_without_a_space_behind_it(text: str) -> None:
    assert wall_of_text(f"{text} ").rstrip(" ") == wall_of_text(text)
    for zone in ("UTC", "Asia/Shanghai", "America/New_York"):
        assert instant_of_wall(f"{text} ", zone).rstrip(" ") == instant_of_wall(text, zone)


@MANY
@given(DIGITS, st.sampled_from(("", ".", "e", ".0", "E+")), DIGITS)
def test_a_number_is_read_alike_with_and_without_a_plus(whole: str, point: str, rest: str) -> None:
    text = f"{whole}{point}{rest}"
    assert number_text(f"+{text}").removeprefix("+") == number_text(text)


@MANY
@given(DIGITS, st.sampled_from(("s", "ms", "us", "ns")))
def test_a_count_is_read_alike_with_and_without_a_fraction(digits: str, unit: str) -> None:
    found, longer = epoch_parts(digits, unit), epoch_parts(f"{digits}.0", unit)
    assert longer == (None if found is None else (found[0], f"{found[1]}0"))


WORDS = (
    *("007", "1.50E2", "-0", "+5", " 7 ", "true", "NaN", "é😀", "a\nb", 'a":1', "a\\", "\u0001", ""),
    *("2024-02-29 10:00:00", "1606233662.012345", "AQ=="),
    *(WORD, f'["{WORD}"]', f'{{"{WORD}": "{WORD}"}}', WORD.encode().hex(), f"{WORD}s"),
)
NUMBERS = (
    *("0", "-0", "-0.0", "7", "-7", "0.10", "1e5", "1E400", "-1.5e-3", "18446744073709551616"),
    *("9" * 40, "9" * 1000, "9" * 1001, "9" * 5000, "1." + "1" * 999),
)
ODD = (
    *('"\\ud800"', '"\\u0041\\/"', '"\\ud83d\\ude00"', "NaN", "1,", "tru", "null", "true", "false"),
    *("{}", "[]", "[-0]", "[null]", '{"a": 1.10}', '{"a":1,"a":2}'),
)
TEXTS = (*(json.dumps(word) for word in WORDS), *(json.dumps(word, ensure_ascii=False) for word in WORDS))
NAMES = st.sampled_from(("cell", "cell", "id", "name", "ce\\u006cl", "other"))
CELLS = st.lists(st.tuples(NAMES, st.sampled_from((*TEXTS, *NUMBERS, *ODD))), min_size=1, max_size=3)


@lru_cache
def sample(name: str) -> Sample:
    """The format's sample without the cells that only bytes can say."""
    return sample_of(name).without_nested_cells("__light_type")


def answer(good: Sample, value: bytes) -> object:
    try:
        return [repr(event) for event in good.decode(value)]
    except Malformed as error:
        return error.reason, error.detail


def from_bytes(good: Sample, value: bytes) -> object:
    """The answer where no cell is taken as a Python value."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(DualDecoder, "plain_of", lambda *_: (_ for _ in ()).throw(NeedsExactDecoding()))
        return answer(good, value)


@pytest.mark.parametrize("name", sorted(FORMATS))
@settings(MANY, max_examples=150 if IS_LARGE else 50, suppress_health_check=[HealthCheck.too_slow])
@given(CELLS, st.booleans(), st.booleans())
def test_python_values_and_bytes_are_read_alike(
    name: str, cells: list[tuple[str, str]], is_compact: bool, is_declared: bool
) -> None:
    good = sample(name)
    written = [
        (f'"{good.column if is_declared and column == "id" else column}"'.encode(), cell.encode())
        for column, cell in cells
    ]
    value = good.value(*written, is_compact=is_compact)
    assert answer(good, value) == from_bytes(good, value)


@pytest.mark.parametrize("name", sorted(FORMATS))
def test_recorded_messages_are_read_alike_from_python_values_and_bytes(name: str) -> None:
    for message, context in recordings(name):
        good = Sample(sample(name).format, context, message.key, None, "")
        if message.value is not None:
            assert answer(good, message.value) == from_bytes(good, message.value)


def test_columns_of_a_table_are_one_object_for_all_its_messages() -> None:
    for name in (
        "arcion",
        "canal",
        "datahub_tuple",
        "dms",
        "maxwell",
        "oms_canal",
        "oms_default",
        "oms_default_extend",
        "oms_shareplex",
        "oms_dataworks",
    ):
        good = replace(sample(name), context=replace(sample(name).context, codecs_for=lambda *_: {}))
        first, second, other = (
            good.decode(good.value((b'"cell"', cell), is_compact=True))[0].columns
            for cell in (b'"a"', b'"b"', b"1")
        )
        assert first is second
        assert first is not other


@MANY
@given(
    st.sampled_from(
        ("string", "int", "double", "float", "decimal(38,0)", "date", "timestamp_ntz", "boolean")
    ),
    st.integers()
    | st.floats(allow_nan=False, allow_infinity=False).map(lambda number: NumberText(repr(number))),
)
def test_a_step_of_a_declared_type_gives_the_text_that_the_long_way_gives(
    type_name: str, cell: int | NumberText
) -> None:
    step = declared_step(type_name, type(cell))
    if step is not None and len(str(cell)) <= MAX_DIGITS:
        assert step(cell) == declared_text(type_name, *read_cell(cell))


HALF = st.fixed_dictionaries(
    {
        "offset": st.integers(0, 3),
        "half": st.sampled_from(("before", "after")),
        "topic": st.sampled_from(("a", "b")),
        "partition": st.just(0),
        "keys": st.sampled_from((None, ["id"])),
        "id": st.sampled_from(("1", "2")),
    }
)


@MANY
@given(HALF, HALF)
def test_two_halves_are_a_pair_alone_and_beside_a_half_of_another_partition(one: Row, other: Row) -> None:
    halves = []
    for half in (one, other):
        images = {side: {"id": half["id"]} if half["half"] == side else None for side in ("before", "after")}
        halves.append({**half, **images})
    bystander = {**halves[0], "partition": 1}
    if halves[0]["topic"] != halves[1]["topic"] or halves[0]["offset"] != halves[1]["offset"]:
        assert merged(halves) == merged([*halves, bystander])[:2]


def merged(halves: Sequence[Row]) -> list[tuple[object, object] | None]:
    """The images of halves of one position after `merge_adjacent`."""
    rows: list[Row | None] = [{**half, "change_id": str(at)} for at, half in enumerate(halves)]
    merge_adjacent(rows, [range(len(rows))])
    return [None if row is None else (row["before"], row["after"]) for row in rows]
