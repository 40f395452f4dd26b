"""No false alarms: the default rules hold for every correct replica, whatever its settings and its feed.

For `make property`: a dozen tables, twice.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from framework.pipeline.layer import Run, installed_layers
from framework.quality.job import judge
from tests.amounts import IS_LARGE
from tests.end_to_end.test_blob_to_replica import Shop, item, message

SETTINGS = """  log: {format: canal, files: ./log, layout: kcat}
tables:
  - {match: shop.soft, deletes: soft}
  - {match: shop.kept, deletes: ignore}
  - {match: shop.frozen, schema_policy: ignore}
  - {match: shop.named, replica: crm.other}
  - {match: shop.hidden, exclude: true}
  - {match: crm.moved, history: true}
quality: {scan: counted}
"""
TABLES = ("item", "soft", "kept", "frozen", "named", "hidden")
MORE = [
    {"name": "id", "type": "LONG"},
    {"name": "name", "type": "STRING"},
    {"name": "price", "type": "DOUBLE"},
]


def canal(offset: int, table: str, kind: str, rows: Sequence[Mapping[str, Any]] = (), **more: Any) -> str:
    """A line as `kcat -J` prints it."""
    payload = {
        "data": list(rows) or None,
        "database": "crm",
        "table": table,
        "type": kind,
        "es": 1_700_000_000_000 + offset * 1000,
        "id": offset,
        "isDdl": bool(more.get("sql")),
        "mysqlType": {name: "varchar(20)" if name == "name" else "bigint(20)" for row in rows for name in row}
        or None,
        "old": None,
        "pkNames": None if table == "events" else ["id"],
        "sql": "",
        "ts": 1_700_000_000_000 + offset * 1000,
        **more,
    }
    return json.dumps(
        {
            "topic": "crm",
            "partition": 0,
            "offset": offset,
            "ts": 1,
            "key": None,
            "payload": json.dumps(payload),
        }
    )


def land(folder: Path, name: str, lines: Sequence[str]) -> None:
    (folder / "log").mkdir(exist_ok=True)
    (folder / "log" / f".{name}").write_text("\n".join(lines), encoding="utf-8")
    (folder / "log" / f".{name}").rename(folder / "log" / f"{name}.jsonl")


@pytest.mark.skipif(not IS_LARGE, reason="make property runs it: it takes a minute")
def test_no_default_rule_fails_on_a_correct_replica(spark: SparkSession, tmp_path: Path) -> None:
    shop = Shop(spark, tmp_path, SETTINGS)

    def judged() -> tuple[set[str], dict[str, tuple[str, ...]]]:
        shop.run()
        found = judge(Run(spark, shop.lake, shop.config, f"judged {shop.files}"), installed_layers())
        failed = {
            f"{r.severity} {r.source or ''} {r.table or ''} {r.rule}": (r.observed, *r.failing_keys)
            for r in found.failures
        }
        return {f"{r.layer} {r.table} {r.rule}" for r in found.results}, failed

    first = [
        message("INSERT", 10 * n, after=item(n, "pen", 1.5), tableName=table)
        for table in TABLES
        for n in (1, 2, 3)
    ]
    shop.land([*first, *first[:4], message("UPDATE_BEFOR", 40, before=item(1, "pen", 1.5))])
    land(
        tmp_path,
        "one",
        [
            *(canal(n, "moved", "INSERT", [{"id": str(n), "name": "pen"}]) for n in (1, 2, 3)),
            canal(4, "moved", "UPDATE", [{"id": "9", "name": "pen"}], old=[{"id": "3"}]),
            *(canal(n, "events", "INSERT", [{"id": "7", "name": "seen"}]) for n in (5, 6)),
            canal(7, "emptied", "INSERT", [{"id": "1", "name": "pen"}]),
            canal(8, "emptied", "TRUNCATE", sql="TRUNCATE TABLE `emptied`"),
            canal(9, "emptied", "INSERT", [{"id": "2", "name": "ink"}]),
            canal(10, "ended", "INSERT", [{"id": "1", "name": "pen"}]),
        ],
    )
    rules, failed = judged()
    assert failed == {}
    assert {
        f"gold {table} {rule}"
        for table in ("item", "soft", "moved")
        for rule in ("unique(id)", "implied_keys", "types")
    } <= rules
    assert not any(" hidden " in rule or rule == "gold events unique(id)" for rule in rules)

    late = message("UPDATE", 15, before=item(2, "pen", 1.5), after=item(2, "late", 1.5))
    gone = [message("DELETE", 50, before=item(2, "pen", 1.5), tableName=table) for table in TABLES]
    back = [message("INSERT", 60, after=item(2, "back", 2.5), tableName=table) for table in ("item", "soft")]
    more = message(
        "INSERT",
        70,
        after={**item(4, "cap", 3.0), "extra": "x"},
        tableName="frozen",
        columns=[*MORE, {"name": "extra", "type": "STRING"}],
    )
    shop.land(
        [message("UPDATE_AFTER", 40, after=item(1, "ink", 1.5)), *gone, *back, late, late, more, "no message"]
    )
    land(
        tmp_path,
        "two",
        [
            canal(10, "ended", "INSERT", [{"id": "1", "name": "pen"}]),  # an overlapping dump
            canal(
                11,
                "moved",
                "ALTER",
                sql="ALTER TABLE `moved` RENAME COLUMN `id` TO `no`, ADD COLUMN `n` bigint DEFAULT 5",
            ),
            canal(12, "moved", "INSERT", [{"no": "3", "name": "cap", "n": "1"}], pkNames=["no"]),
            canal(13, "ended", "ERASE", sql="DROP TABLE `ended`"),
            canal(14, "emptied", "TRUNCATE", sql="TRUNCATE TABLE `emptied`"),
            canal(15, "events", "DELETE", [{"id": "7", "name": "seen"}]),
        ],
    )
    _, failed = judged()
    assert failed == {
        "warn  quarantine nothing_quarantined": ("not_json: 1", "feed/part-002.jsonl/0/13: not_json")
    }
    rules, failed = judged()
    assert (rules, len(failed)) == (set(), 1)
    run = Run(spark, shop.lake, shop.config, "verified")
    checks = [check for layer in installed_layers() if layer.verify for check in layer.verify(run)]
    assert [check for check in checks if not check.is_ok] == []
    assert "one_fate" in {check.name for check in checks}
