from __future__ import annotations

from pathlib import Path

import pytest

from framework.config.model import Catalog, load_config
from framework.errors import ConfigurationError
from framework.lakehouse.catalog import grant_statements, table_tag_statements, tag_statements
from framework.lakehouse.lakehouse import Lakehouse, is_called, lakehouse_of, sql_name
from silver.layer import LAYER as SILVER


def configured(folder: Path, lakehouse: str) -> Path:
    file = folder / "mainstem.yml"
    text = f"pipeline: shop\nlakehouse: {lakehouse}\ncheckpoints: /Volumes/main/shop/cp/\n"
    file.write_text(text + "sources:\n  feed: {format: datahub_blob, files: ./landing}\n", encoding="utf-8")
    return file


def test_a_catalog_gives_each_layer_a_schema_and_each_table_a_name(tmp_path: Path) -> None:
    file = configured(tmp_path, "{catalog: main, schema_prefix: shop_}")
    lake = lakehouse_of(load_config(file, formats=SILVER.options()))
    assert lake.location("bronze/messages") == "main.shop_bronze.messages"
    assert lake.location("gold/crm.public/customer") == "main.shop_gold.crm__public__customer"
    assert lake.location("ops/files/feed") == "main.shop_ops.files__feed"
    assert sql_name(lake.location("silver/changes")) == "main.shop_silver.changes"
    assert (lake.checkpoints, lake.local_root) == ("/Volumes/main/shop/cp/main.shop__mainstem", None)


def test_names_that_sql_cannot_read_as_they_are_stand_in_backticks(tmp_path: Path) -> None:
    lake = lakehouse_of(
        load_config(configured(tmp_path, "{catalog: my-lake, schema_prefix: 2b_}"), formats=SILVER.options())
    )
    assert lake.location("gold/shop/item") == "`my-lake`.`2b_gold`.shop__item"
    assert lake.location("gold/~/item") == "`my-lake`.`2b_gold`.___n__item"
    assert sql_name("/lake/gold/shop/it`em") == "delta.`/lake/gold/shop/it``em`"


def test_a_table_is_known_by_its_name_wherever_its_lakehouse_is() -> None:
    lakes = (
        Lakehouse("/a"),
        Lakehouse("s3://bucket/b"),
        Lakehouse("/c", "main", "x_"),
        Lakehouse("/d", "my-lake"),
    )
    names = ("gold/shop/item", "gold/shop/item__history", "gold/2b/1", "gold/a.b/item")
    for lake in lakes:
        assert [[is_called(lake.location(name), other) for other in names] for name in names] == [
            [name == other for other in names] for name in names
        ]


def test_grants_are_written_for_each_schema_and_principal(tmp_path: Path) -> None:
    file = configured(
        tmp_path, "{catalog: main, grants: {gold: {analysts: [USE SCHEMA, SELECT], 'o`ps': [BROWSE]}}}"
    )
    config = load_config(file, formats=SILVER.options())
    assert isinstance(config.lakehouse, Catalog)
    assert list(grant_statements(lakehouse_of(config), config.lakehouse.grants)) == [
        "GRANT USE SCHEMA, SELECT ON SCHEMA main.gold TO `analysts`",
        "GRANT BROWSE ON SCHEMA main.gold TO `o``ps`",
    ]


def test_tags_are_set_on_each_schema_and_none_without_tags(tmp_path: Path) -> None:
    config = load_config(
        configured(tmp_path, '{catalog: main, tags: {pipeline: shop, owner: "it\'s us"}}'),
        formats=SILVER.options(),
    )
    assert isinstance(config.lakehouse, Catalog)
    lake = lakehouse_of(config)
    assert list(tag_statements(lake, config.lakehouse.tags)) == [
        f"ALTER SCHEMA main.{layer} SET TAGS ('pipeline' = 'shop', 'owner' = 'it\\'s us')"
        for layer in ("bronze", "silver", "gold", "ops")
    ]
    assert list(tag_statements(lake, {})) == []


def test_new_tables_of_gold_have_the_tags_and_their_source() -> None:
    tables = ["main.gold.shop__item", "main.gold.shop__item__history"]
    assert list(table_tag_statements(tables, "o'neill", {"pipeline": "shop"})) == [
        f"ALTER TABLE {table} SET TAGS ('source' = 'o\\'neill', 'pipeline' = 'shop')" for table in tables
    ]
    assert list(table_tag_statements(tables, "shop", {"source": "mine"})) == [
        f"ALTER TABLE {table} SET TAGS ('source' = 'mine')" for table in tables
    ]
    assert list(table_tag_statements(tables, "shop", {})) == []


@pytest.mark.parametrize(
    "grants", ["{golden: {a: [SELECT]}}", "{gold: {a: [SELECT; DROP]}}", "{gold: {a: SELECT}}"]
)
def test_grants_of_unknown_schemas_or_privileges_are_refused(tmp_path: Path, grants: str) -> None:
    with pytest.raises(ConfigurationError):
        load_config(configured(tmp_path, f"{{catalog: main, grants: {grants}}}"), formats=SILVER.options())


def test_sources_that_a_catalog_would_not_tell_apart_are_refused(tmp_path: Path) -> None:
    file = configured(tmp_path, "{catalog: main}")
    file.write_text(file.read_text() + "  Feed: {format: datahub_blob, files: ./other}\n", encoding="utf-8")
    with pytest.raises(ConfigurationError) as raised:
        load_config(file, formats=SILVER.options())
    assert (raised.value.condition, "'feed' and 'Feed'" in raised.value.found) == (
        "CONFIG_SOURCES_OVERLAP",
        True,
    )
