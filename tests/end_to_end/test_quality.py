"""Each fault that is planted is found and named with its key;
a clean pipeline shows none, and costs nothing when idle.
"""

from __future__ import annotations

import html
import json
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from framework.cli import main
from framework.pipeline.layer import Run, installed_layers
from framework.quality import runner
from framework.quality.job import judge
from framework.quality.layer import LAYER as QUALITY_STEP
from tests.end_to_end.test_blob_to_replica import COLUMNS, Shop, item, message
from tests.framework.pipeline.test_alerts import webhook

LINES = [
    {"name": "id", "type": "LONG"},
    {"name": "item_id", "type": "LONG"},
    {"name": "state", "type": "STRING"},
]
QUALITY = """
quality:
  sources: {feed: AGE}
  rules:
    - {match: shop.item, range: {column: price, min: 0, max: 100}}
    - {match: shop.item, regex: {column: name, pattern: "[a-z ]+"}, severity: warn}
    - {match: shop.item, length: {column: name, max: 20}}
    - {match: shop.item, row_count_change: 400}
    - {match: shop.item, sql: "price < 50 OR name = 'gold'"}
    - {match: shop.item, snapshot: {format: csv, path: SNAPSHOT}}
    - {match: shop.itme, not_null: id}
    - {match: shop.line, relationship: {columns: item_id, to: shop.item}}
    - {match: "shop.l*", accepted: {column: state, values: [open, sent]}}
"""


def line(number: int, item_id: int, state: str = "open") -> dict[str, Any]:
    return {"id": number, "item_id": item_id, "state": state}


def line_message(op: str, sequence: int, row: dict[str, Any]) -> dict[str, Any]:
    return message(op, sequence, after=row, columns=LINES, tableName="line")


def run(shop: Shop, capsys: pytest.CaptureFixture[str]) -> tuple[int, dict[str, Any]]:
    capsys.readouterr()
    code = main(["run", "-c", str(shop.folder / "mainstem.yml"), "--json"])
    output = capsys.readouterr()
    return code, {**json.loads(output.out), "notes": output.err}


def version(shop: Shop) -> int:
    return DeltaTable(str(shop.folder / "lakehouse/ops/quality_results")).version()


def failed(found: dict[str, Any]) -> dict[str, list[str]]:
    names = {}
    for result in found["failed_rules"]:
        place = ".".join(part for part in (result["database"], result["table"]) if part) or result["source"]
        names[f"{result['layer']} {place} {result['rule']}"] = result["failing_keys"]
    return names


@pytest.mark.long
def test_planted_faults_are_found_with_their_keys_and_a_clean_pipeline_shows_none(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    snapshot = tmp_path / "item.csv"
    snapshot.write_text("id,name,price\n1,pen,1.5\n2,ink,9.90\n3,nib,0.25\n4,cap,3\n")
    rules = QUALITY.replace("SNAPSHOT", str(snapshot))
    shop = Shop(spark, tmp_path, rules.replace("AGE", "40000 days"))
    rows = [item(1, "pen", 1.5), item(2, "ink", 9.9), item(3, "nib", 0.25), item(4, "cap", 3)]
    shop.land(
        [message("INSERT", n, after=row) for n, row in enumerate(rows, 1)]
        + [line_message("INSERT", 9, line(1, 2))]
    )

    code, found = run(shop, capsys)
    assert (code, failed(found)) == (0, {})
    assert (
        "note: quality.rules: no table matches 'shop.itme' so far; did you mean 'shop.item'?"
        in found["notes"]
    )
    first = version(shop)
    code, found = run(shop, capsys)
    assert (code, failed(found), found["counts"]["rules_checked"], version(shop)) == (0, {}, 0, first)

    path = f"delta.`{shop.folder}/lakehouse"
    spark.sql(f"INSERT INTO {path}/gold/shop/item` SELECT * FROM {path}/gold/shop/item` WHERE id = 1")
    spark.sql(
        f"INSERT INTO {path}/gold/shop/item` SELECT null, * EXCEPT (id) FROM {path}/gold/shop/item` WHERE "
        f"id = 2"
    )
    spark.sql(f"UPDATE {path}/gold/shop/item` SET price = 9.91 WHERE id = 2")
    spark.sql(f"DELETE FROM {path}/gold/shop/item` WHERE id = 4")
    spark.sql(f"DELETE FROM {path}/silver/changes` WHERE `after`['name'] = 'nib'")
    (tmp_path / "mainstem.yml").write_text(
        (tmp_path / "mainstem.yml").read_text().replace("40000 days", "1 hour")
    )
    bad = message("INSERT", 12, after={**item(5, "Quill", 200), "price": "abc"}, columns=[*COLUMNS])
    shop.land([line_message("INSERT", 10, line(2, 99)), line_message("INSERT", 11, line(3, 1, "lost")), bad])

    code, found = run(shop, capsys)
    assert code == 3
    faults = failed(found)
    part = "feed/part-001.jsonl/0"
    assert faults.pop("silver changes every_message_has_a_fate") == [f"{part}/3"]
    assert faults.pop("source feed freshness") == ["feed"]
    assert faults.pop("gold shop.line relationship(item_id)") == ["id=2, item_id=99"]
    assert faults.pop("gold shop.line accepted(state)") == ["id=3"]
    assert faults.pop("gold shop.item unique(id)") == ["id=1"]
    assert faults.pop("gold shop.item not_null(id)") == ["id=null"]
    assert faults.pop("gold shop.item regex(name)") == ["id=5"]
    assert faults.pop("gold shop.item bad_values") == ["id=5: price bad_value"]
    compared = faults.pop("gold shop.item snapshot")
    assert {"id=2: differs in price", "id=4: not in the replica", "id=5: not in the snapshot"} <= set(
        compared
    )
    implied = faults.pop("gold shop.item implied_keys")
    assert {
        "id=3: no change put it there",
        "id=4: missing in the replica",
        "id=null: no change put it there",
    } <= set(implied)
    assert faults == {}

    with webhook() as (address, received):
        (tmp_path / "mainstem.yml").write_text(
            (tmp_path / "mainstem.yml").read_text() + f"\nalerts: [{{webhook: '{address}'}}]\n"
        )
        code, second = run(shop, capsys)
        assert (code, failed(second)) == (3, failed(found))
        assert second["counts"]["rules_checked"] == 0
        run(shop, capsys)
    assert [sent["exit_code"] for sent in received] == [3]
    problem = {"kind": "quality", "table": "shop.item", "source": "feed", "text": "unique(id) (1 fail)"}
    assert problem in received[0]["problems"]

    spark.sql(f"ALTER TABLE {path}/bronze/messages` SET TBLPROPERTIES ('delta.appendOnly' = 'false')")
    spark.sql(f"DELETE FROM {path}/bronze/messages` WHERE offset = 2 AND topic LIKE '%part-001%'")
    lines = spark.read.format("delta").load(f"{shop.folder}/lakehouse/gold/shop/line")
    retyped = (
        lines.withColumn("item_id", lines["item_id"].cast("string")).write.format("delta").mode("overwrite")
    )
    retyped.option("overwriteSchema", "true").save(f"{shop.folder}/lakehouse/gold/shop/line")
    report = QUALITY_STEP.run(
        Run(spark, shop.lake, shop.config, "judged alone")
    )  # silver itself would refuse such a bronze
    broken = {result.rule: result.failing_keys for result in report.failures}
    assert broken["every_fate_has_its_message"] == (f"{part}/2",)
    assert broken["types"] == ("item_id: string, applied as bigint",)

    assert main(["report", "-c", str(tmp_path / "mainstem.yml")]) == 0
    page = html.unescape((tmp_path / "mainstem-report.html").read_text(encoding="utf-8"))
    keys = {key for names in (*failed(found).values(), *broken.values()) for key in names}
    texts = {key.replace(f"{part}/", "feed/part-001.jsonl, partition 0, offset ") for key in keys}
    assert {text for text in texts if text not in page} == set()
    report = json.loads((tmp_path / "mainstem-report.json").read_text(encoding="utf-8"))
    assert report["verdict"] == "fail"
    stand = {key for check in report["quality"] if check["success"] is False for key in check["failing_keys"]}
    assert keys - stand == {"feed"}  # its limit in `shop.config` is still that of the beginning


BEFORE_APPLYING = """
quality:
  rules:
    - {match: shop.item, range: {column: price, max: 100}, gate: true}
    - {match: shop.line, accepted: {column: state, values: [open, sent]}, on_change: quarantine}
    - {match: shop.line, range: {column: item_id, min: 1}, on_change: warn}
    - {match: shop.item, range: {column: item_id, min: 1}, on_change: warn}
"""


@pytest.mark.slow
def test_a_gate_holds_back_a_batch_and_broken_changes_wait_in_quarantine(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with webhook() as (address, received):
        _check_gate(Shop(spark, tmp_path, f"{BEFORE_APPLYING}alerts: [{{webhook: '{address}'}}]\n"), capsys)
    assert [(sent["exit_code"], sent["problems"] == []) for sent in received] == [(3, False), (0, True)]
    assert str(received[1]["text"]).startswith("mainstem shop: all is well again")


def _check_gate(shop: Shop, capsys: pytest.CaptureFixture[str]) -> None:
    lines = [line(1, 1), line(2, 1, "lost"), line(3, 0)]
    shop.land(
        [message("INSERT", 1, after=item(1, "pen", 5.0)), message("INSERT", 2, after=item(2, "ink", 200.0))]
        + [line_message("INSERT", n, row) for n, row in enumerate(lines, 3)]
    )

    code, found = run(shop, capsys)
    assert code == 3
    assert failed(found)["source shop.item applied"] == ["id=2"]
    (parked,) = (table for table in shop.status()["tables"] if table["table"] == "item")
    assert (parked["state"], parked["failing_keys"]) == ("parked", ["id=2"])
    assert "id=2" not in parked["reason"]
    assert failed(found)["silver quarantine nothing_quarantined"] == ["feed/part-001.jsonl/0/4: rule_broken"]
    assert failed(found)["silver changes change range(item_id)"][0].startswith(
        "source=feed, topic=part-001.jsonl, partition=0, offset=5"
    )
    assert set(shop.rows("shop/line")) == {1, 3}
    assert not (shop.folder / "lakehouse/gold/shop/item").exists()

    shop.land([message("UPDATE", 6, before=item(2, "ink", 200.0), after=item(2, "ink", 20.0))])
    code, found = run(shop, capsys)
    assert (code, "source shop.item applied" in failed(found)) == (0, False)
    assert shop.rows("shop/item") == {1: item(1, "pen", 5.0), 2: item(2, "ink", 20.0)}

    file = shop.folder / "mainstem.yml"
    file.write_text(file.read_text().replace("[open, sent]", "[open, sent, lost]"))
    assert main(["replay", "-c", str(file)]) == 0
    assert shop.rows("shop/line") == {row["id"]: row for row in lines}


@pytest.mark.long
def test_of_a_large_table_the_new_keys_alone_are_compared_until_somebody_else_writes_to_it(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "SMALL_ROWS", -1)
    shop = Shop(spark, tmp_path, "quality: {scan: counted}\n")

    def judged() -> list[tuple[str, str, tuple[str, ...]]]:
        results = judge(Run(spark, shop.lake, shop.config, "judged alone"), installed_layers()).results
        found = {
            r.rule: (r.observed.partition(",")[0], r.engine, r.failing_keys)
            for r in results
            if r.layer == "gold"
        }
        return [found[rule] for rule in ("not_null(id)", "unique(id)", "implied_keys")]

    shop.land([message("INSERT", n, after=item(n, "pen", 1.5)) for n in (1, 2, 3)])
    shop.run()
    good = [
        ("0 of 3 rows", "mainstem", ()),
        ("0 of 3 rows", "mainstem", ()),
        ("all keys as implied", "mainstem", ()),
    ]
    assert judged() == good

    changed = message("UPDATE", 5, before=item(1, "pen", 1.5), after=item(1, "ink", 1.5))
    shop.land(
        [
            message("DELETE", 4, before=item(2, "pen", 1.5)),
            changed,
            message("INSERT", 6, after=item(4, "cap", 3.0)),
        ]
    )
    shop.run()
    new = "0 of 2 new rows"
    assert judged() == [(new, "mainstem", ()), (new, "mainstem", ()), ("new keys as implied", "mainstem", ())]

    path = f"delta.`{shop.folder}/lakehouse/gold/shop/item`"
    spark.sql(f"INSERT INTO {path} SELECT * FROM {path} WHERE id = 3")
    assert judged()[:2] == [("0 of 4 rows", "mainstem", ()), ("1 of 4 rows", "mainstem", ("id=3",))]
