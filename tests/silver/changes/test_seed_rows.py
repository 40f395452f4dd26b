"""The rows of a dump that the codec of a column makes text of bytes in."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from framework.contracts.events import Column
from framework.contracts.messages import RawMessage
from framework.contracts.quarantine_reasons import Malformed
from framework.contracts.seed import Seed, header_text
from silver.changes.seed_rows import Declared, seeded_row
from silver.changes.staged_rows import Row
from silver.formats import debezium
from tests.silver.changes.test_decode import plan

SEED = Seed(
    "feed", "shop", None, "item", "001.011~", ("id",), {"id": "int", "note": "binary", "more": "binary"}
)


def row(note: str | None, known: Declared, seed: Seed = SEED) -> Row:
    context = replace(plan(debezium.FORMAT).context, codecs_for=lambda *_: {"note": "gbk", "id": "gbk"})
    value = json.dumps({"id": "1", "note": note, "more": "1tA="}).encode()
    message = RawMessage("feed", "mainstem.seed:shop.item/1", 0, 1, None, None, value, ())
    return seeded_row(message, header_text(seed), "debezium", context, {seed.identity: known})


@pytest.mark.parametrize("known", [{}, {"id": Column("int"), "note": Column("string", "blob")}])
def test_bytes_with_a_codec_are_text_as_they_are_in_the_feed(known: Declared) -> None:
    found = row("1tA=", known)
    assert found["after"] == {"id": "1", "note": "中", "more": "1tA="}
    assert {name: column.type for name, column in found["shape"].items()} == {
        "id": "int", "note": "string", "more": "binary",
    }  # fmt: skip
    assert row(None, known)["after"]["note"] is None


def test_bytes_that_are_not_of_the_codec_are_refused() -> None:
    with pytest.raises(Malformed):
        row("/w==", {})


def test_the_text_of_a_dump_without_types_stays() -> None:
    assert row("中", {}, replace(SEED, columns={"id": None}))["after"]["note"] == "中"
