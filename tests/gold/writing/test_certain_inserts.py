"""Where no insert certainly met a row, Spark finds none that did."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql import SparkSession

from framework.contracts.events import Image
from gold.changes.effects import effects
from gold.changes.few_changes import FewChange
from gold.schema.columns import TableColumn
from gold.writing.certain_inserts import certainly_meet_none
from gold.writing.collisions import _with_marks

KEYS = {"table": "int", "id": "bigint", "name": "string"}
SCHEMA = (
    "sequence string, event_time timestamp, change_id string, transaction_id string, op string,"
    " partial boolean, half string, before map<string, string>, after map<string, string>"
)
_Spec = tuple[str, Image | None, Image | None]
"""The operation and the images of a change."""


def plan(keys: Sequence[str] = ("id",), *, keeps_images: bool = True, former: Any = None) -> Any:
    columns = [TableColumn(name, KEYS[name], None) for name in keys]
    return SimpleNamespace(
        layout=SimpleNamespace(keys=list(keys), key_columns=columns),
        former_keys=former,
        namings=[SimpleNamespace(keeps_images=keeps_images)],
        batch_profile=SimpleNamespace(min_sequence=None),
        task=SimpleNamespace(lineage=SimpleNamespace(truncates=())),
    )


def changes(*specs: _Spec, keys: Sequence[str] = ("id",)) -> list[FewChange]:
    return [
        FewChange(f"id{at}", 0, 0, op, f"{at:03d}", None, tuple(keys), before, after, False, False, "s")
        for at, (op, before, after) in enumerate(specs)
    ]


def image(number: str | None, value: str = "a") -> dict[str, str | None]:
    return {"id": number, "n": value}


def test_a_key_that_is_inserted_again_after_its_delete_meets_nothing() -> None:
    found = changes(
        ("insert", None, image("1")),
        ("update", image("1"), image("1", "b")),
        ("delete", image("1"), None),
        ("insert", None, image("1", "c")),
        ("update", image("1"), image("2")),
        ("insert", None, image("1")),
        ("read", None, image("3")),
        ("delete", None, image("3")),
        ("insert", None, image("3")),
    )
    assert certainly_meet_none(found, plan())
    assert not certainly_meet_none(found, plan(keeps_images=False))
    assert not certainly_meet_none(found, plan(former=("n",)))


@pytest.mark.parametrize(
    "specs",
    [
        [("insert", None, image("1")), ("insert", None, image("1", "b"))],
        [("read", None, image("1")), ("insert", None, image("1", "b"))],
        [("update", None, image("1")), ("insert", None, image("1", "b"))],
        [("insert", None, image("01"))],
        [("insert", None, image("9223372036854775808"))],
        [("insert", None, image(None))],
        [("insert", None, {"n": "a"})],
        [("insert", None, None)],
        [("insert", None, image("1")), ("delete", {"n": "a"}, image("1")), ("insert", None, image("1"))],
        [("insert", None, image("1")), ("delete", image(None), image("1"))],
    ],
)
def test_spark_is_asked_where_the_texts_do_not_decide(specs: list[_Spec]) -> None:
    assert not certainly_meet_none(changes(*specs), plan())


def test_spark_is_asked_where_two_changes_have_one_position() -> None:
    found = changes(("delete", image("1"), None), ("insert", None, image("1")))
    assert certainly_meet_none(found, plan())
    same = [replace(change, sequence="007") for change in found]
    assert not certainly_meet_none(same, plan())


def random_image(source: random.Random, name: str) -> Image | None:
    texts = ["1", "2", "3", "3", "01", "-0", "x", None]
    weights = [9, 9, 5, 5, 1, 1, 1, 1]
    drawn: dict[str, str | None] = {"id": source.choices(texts, weights)[0], "name": name, "n": "v"}
    drawn["n"] = source.choice(["v", "w"])
    if source.random() < 0.03:
        del drawn["id"]
    return None if source.random() < 0.03 else drawn


def random_changes(source: random.Random) -> list[FewChange]:
    specs: list[_Spec] = []
    for _ in range(source.randint(1, 7)):
        before, after = (random_image(source, source.choice("ab")) for _ in range(2))
        op = source.choice(["insert", "insert", "update", "delete", "delete", "read"])
        if op in ("insert", "read"):
            before = None
        elif op == "delete" and source.random() < 0.9:
            after = None
        specs.append((op, before, after))
    return changes(*specs, keys=("id", "name"))


def test_spark_finds_no_insert_that_met_a_row_where_none_certainly_did(spark: SparkSession) -> None:
    source = random.Random(41)
    tables = [random_changes(source) for _ in range(2_000)]
    sure = {at for at, rows in enumerate(tables) if certainly_meet_none(rows, plan(("id", "name")))}
    rows = [
        (
            row.sequence, None, f"{at}-{row.sequence}", None, row.op, False, None,
            *(None if image is None else {**image, "table": str(at)} for image in (row.before, row.after)),
        )
        for at, table in enumerate(tables)
        for row in table
    ]  # fmt: skip
    frame = spark.createDataFrame(rows, SCHEMA)
    keyed = plan(("table", "id", "name"))
    marked = _with_marks(effects(frame, keyed.layout.key_columns), keyed)
    met = {row["k0"] for row in marked.where("_collides").select("k0").distinct().collect()}
    assert not met & sure
    assert len(sure) > 200
    assert len(met) > 100
