"""From bytes in a landing folder to rows in replicas, through the command line's own code."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from bronze.layer import LAYER as BRONZE
from framework.cli.output import account_line
from framework.config.model import Config, load_config
from framework.lakehouse.lakehouse import Lakehouse
from framework.pipeline.layer import Run
from gold.layer import LAYER as GOLD
from silver.layer import LAYER as SILVER

COLUMNS = [
    {"name": "id", "type": "LONG"},
    {"name": "name", "type": "STRING"},
    {"name": "price", "type": "DOUBLE"},
]


class Shop:
    """A pipeline in a folder of its own: `land` drops a file, `run` brings all layers up to date."""

    def __init__(self, spark: SparkSession, folder: Path, more: str = "") -> None:
        self.spark, self.folder, self.files = spark, folder, 0
        (folder / "landing").mkdir()
        source = "  feed: {format: datahub_blob, files: ./landing, pairing_timeout: 10 minutes}\n"
        more += "" if "quality:" in more else "quality: false\n"
        (folder / "mainstem.yml").write_text(
            f"pipeline: shop\nlakehouse: ./lakehouse\nsources:\n{source}{more}", encoding="utf-8"
        )
        self.config: Config = load_config(folder / "mainstem.yml", formats=SILVER.options())
        self.lake = Lakehouse(self.config.root)

    def land(self, messages: Sequence[str | Mapping[str, Any]]) -> None:
        self.files += 1
        lines = [m if isinstance(m, str) else json.dumps(m, ensure_ascii=False) for m in messages]
        hidden = self.folder / "landing" / f".part-{self.files:03d}"
        hidden.write_text("\n".join(lines), encoding="utf-8")
        hidden.rename(self.folder / "landing" / f"part-{self.files:03d}.jsonl")

    def run(self) -> None:
        work = Run(self.spark, self.lake, self.config, f"run-{self.files}")
        for layer in (BRONZE, SILVER, GOLD):
            report = layer.run(work)
            assert report.errors == ()

    def status(self) -> dict[str, Any]:
        work = Run(self.spark, self.lake, self.config, "status")
        return {key: value for layer in (BRONZE, SILVER, GOLD) for key, value in layer.status(work).items()}

    def rows(self, table: str) -> dict[Any, dict[str, Any]]:
        found = DeltaTable(str(self.folder / "lakehouse/gold" / table)).to_pyarrow_table().to_pylist()
        return {row["id"]: {k: v for k, v in row.items() if not k.startswith("_cdc_")} for row in found}


@pytest.fixture
def shop(spark: SparkSession, tmp_path: Path) -> Shop:
    return Shop(spark, tmp_path)


def message(
    op: str, sequence: int | str, before: Any = None, after: Any = None, **more: Any
) -> dict[str, Any]:
    payload = {
        "op": op,
        "sequenceId": sequence,
        "timestamp": {"eventTime": 1700000000000 + int(sequence) % 10**6 * 1000},
    }
    for side, image in (("before", before), ("after", after)):
        payload[side] = None if image is None else {"dataColumn": image}
    payload.update(more.pop("payload", {}))
    schema = {
        "dataColumn": more.pop("columns", COLUMNS),
        "primaryKey": ["id"],
        "source": {"dbType": "mysql", "dbName": "shop", "tableName": "item"},
    }
    schema["source"].update(more)
    return {"schema": schema, "payload": payload, "version": "1.0.0"}


def item(number: int, name: str, price: float) -> dict[str, Any]:
    return {"id": number, "name": name, "price": price}


def test_halves_in_any_order_and_run_lead_to_one_update(shop: Shop) -> None:
    shop.land(
        [
            message("INSERT", 1, after=item(1, "pen", 1.5)),
            message("INSERT", "2", after=item(2, "ink", 9.9)),
            message("UPDATE_AFTER", 3, after=item(1, "pen", 1.75)),
            message("UPDATE_BEFOR", 4, before=item(2, "ink", 9.9)),
        ]
    )
    shop.run()
    assert shop.rows("shop/item") == {1: item(1, "pen", 1.5), 2: item(2, "ink", 9.9)}
    assert shop.status()["pending_halves"] == 2

    shop.land(
        [
            message("UPDATE_AFTER", 4, after=item(22, "ink", 9.9)),
            message("UPDATE_BEFOR", 3, before=item(1, "pen", 1.5)),
            message("UPDATE_BEFOR", 3, before=item(1, "pen", 1.5)),
        ]
    )
    shop.run()

    assert shop.rows("shop/item") == {1: item(1, "pen", 1.75), 22: item(22, "ink", 9.9)}
    status = shop.status()
    assert (status["messages"], status["changes"], status["duplicates"], status["pending_halves"]) == (
        7,
        4,
        1,
        0,
    )
    assert (status["merged_halves"], status["without_fate"], status["further_rows"]) == (2, 0, 0)
    assert account_line(status).endswith("2 halves merged into the changes of their other halves")


@pytest.mark.slow
def test_late_changes_repeats_deletes_and_truncate_end_as_in_order(shop: Shop) -> None:
    shop.land(
        [
            message("INSERT", 10, after=item(1, "a", 1)),
            message("DELETE", 13, before=item(1, "b", 2)),
            message("INSERT", 11, after=item(2, "kept", 1)),
            message("INSERT", 15, after=item(3, "after truncate", 1)),
            message("INSERT", 16, after=item(6, "c", 1)),
            message("DELETE", 18, before=item(6, "d", 1)),
            message("INSERT", "9007199254740993000", after=item(4, "beyond 53 bits", 0.1)),
        ]
    )
    shop.run()
    shop.land(
        [
            message("UPDATE", 12, before=item(1, "a", 1), after=item(1, "b", 2)),
            message("TRUNCATE", 14, payload={"ddl": {"text": "truncate table item"}}),
            message("INSERT", 10, after=item(1, "a", 1)),
            message("UPDATE", 17, before=item(6, "c", 1), after=item(6, "d", 1)),
            message("INSERT", 9, after=item(5, "before truncate", 1)),
        ]
    )
    shop.run()

    assert shop.rows("shop/item") == {3: item(3, "after truncate", 1), 4: item(4, "beyond 53 bits", 0.1)}
    assert shop.status()["duplicates"] == 1


@pytest.mark.slow
def test_a_rename_and_a_new_column_take_effect_at_their_position(shop: Shop) -> None:
    renamed = [
        {"name": "id", "type": "LONG"},
        {"name": "title", "type": "STRING"},
        {"name": "price", "type": "DOUBLE"},
        {"name": "n", "type": "LONG"},
    ]
    shop.land(
        [
            message("INSERT", 1, after=item(1, "old name", 1)),
            message(
                "ALTER",
                3,
                payload={
                    "ddl": {
                        "text": "ALTER TABLE item RENAME COLUMN name TO title, ADD COLUMN n bigint DEFAULT 7"
                    }
                },
            ),
            message(
                "INSERT", 4, columns=renamed, after={"id": 3, "title": "new name", "price": 1, "n": 2**63 + 5}
            ),
        ]
    )
    shop.run()
    shop.land([message("INSERT", 2, after=item(2, "late, under the old name", 1))])
    shop.run()

    assert shop.rows("shop/item") == {
        1: {"id": 1, "title": "old name", "price": 1.0, "n": Decimal(7)},
        2: {"id": 2, "title": "late, under the old name", "price": 1.0, "n": Decimal(7)},
        3: {"id": 3, "title": "new name", "price": 1.0, "n": Decimal(2**63 + 5)},
    }


@pytest.mark.slow
def test_bad_messages_cells_and_names_do_no_harm(shop: Shop) -> None:
    columns = [*COLUMNS, {"name": "x; DROP TABLE y", "type": "DATE"}]
    names = {"dbName": "../z", "tableName": "a.b"}
    shop.land(
        [
            "<html>",
            message(
                "INSERT",
                1,
                columns=columns,
                after={"id": 1, "name": "数量", "price": "abc", "x; DROP TABLE y": 1700000000123},
                **names,
            ),
            '{"payload": {"op": "EXPLODE"}}',
            "   ",
            '{"payload": {"op": "MHEARTBEAT", "timestamp": {"eventTime": 1700000000000}}}',
        ]
    )
    shop.run()

    status = shop.status()
    assert status["quarantined"] == {"not_json": 1, "unknown_op": 1, "empty": 1}
    [table] = status["tables"]
    assert table["bad_values"] == 1
    assert Path(table["replica"]).is_relative_to(shop.folder / "lakehouse" / "gold")
    [row] = shop.spark.read.format("delta").load(table["replica"]).collect()
    assert (row["name"], row["price"], row["x; DROP TABLE y"].isoformat()) == (
        "数量",
        None,
        "2023-11-14T22:13:20.123000",
    )
    assert not (shop.folder / "z").exists()


@pytest.mark.slow
def test_a_run_with_nothing_new_writes_nothing(shop: Shop) -> None:
    shop.land([message("INSERT", 1, after=item(1, "pen", 1.5))])
    shop.run()
    before = DeltaTable(str(shop.folder / "lakehouse/gold/shop/item")).version()

    shop.run()

    assert DeltaTable(str(shop.folder / "lakehouse/gold/shop/item")).version() == before
