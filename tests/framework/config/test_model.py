import os
import pickle
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from pydantic import BaseModel, ConfigDict

from framework.config import validation
from framework.config.model import Config, Layout, load_config, validated_config
from framework.errors import ConfigurationError


class NoOptions(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class TupleOptions(NoOptions):
    database: str | None = None


class TableOptions(TupleOptions):
    table: str | None = None


FORMATS: dict[str, type[BaseModel]] = {"datahub_blob": NoOptions, "datahub_tuple": TupleOptions}

WHOLE = """
pipeline: shop
lakehouse: ./lakehouse
sources:
  orders:
    format: datahub_tuple
    files: ./landing/orders
    layout: kcat
    timezone: Asia/Shanghai
    pairing_timeout: 2 hours
    epoch: 3
    database: shop
  crm:
    format: datahub_blob
    kafka: {bootstrap_servers: "localhost:9092", topics: [crm.customer], failOnDataLoss: false,
            kafka.sasl.jaas.config: "${env:SECRET}"}
tables:
  - match: "shop.*"
    history: true
  - match: shop.order_line
    keys: [order_id, line_no]
    columns: {photo: {decode: utf8}, price: {type: "decimal(12, 2)"}}
    replica: crm.order_line
  - match: shop.tmp_*
    exclude: true
"""

Load = Callable[[str], Config]


@pytest.fixture
def load(tmp_path: Path) -> Load:
    def load_text(text: str) -> Config:
        path = tmp_path / "mainstem.yml"
        path.write_text(text)
        return load_config(path, formats=FORMATS, environ={"SECRET": "s3cret", "NUMBER": "7"})

    return load_text


TWO_FAULTS = ("    databse: x", "{catalog: main, schema_prefx: s_}")
"""Changes after which a required key is missing as well."""


def refusal(load: Load, text: str) -> ConfigurationError:
    with pytest.raises(ConfigurationError) as caught:
        load(text)
    return caught.value


def test_whole_example_is_read(load: Load, tmp_path: Path) -> None:
    config = load(WHOLE)
    orders, crm = config.sources["orders"], config.sources["crm"]

    assert config.root == str(tmp_path / "lakehouse")
    assert orders.files == str(tmp_path / "landing" / "orders")
    assert (orders.name, orders.layout, orders.timezone, orders.epoch) == (
        "orders",
        Layout.KCAT,
        "Asia/Shanghai",
        3,
    )
    assert orders.pairing_timeout == timedelta(hours=2)
    assert orders.options == TupleOptions(database="shop")
    assert (crm.timezone, crm.pairing_timeout, crm.epoch, crm.layout) == (
        "UTC",
        timedelta(minutes=10),
        1,
        Layout.LINES,
    )
    assert crm.kafka is not None
    assert crm.kafka.topics == ("crm.customer",)
    assert crm.kafka.options == {"kafka.sasl.jaas.config": "s3cret", "failOnDataLoss": "false"}


@pytest.mark.parametrize(
    ("place", "is_by_partition"),
    [
        ("files: ./landing", False),
        ("files: ./landing, layout: lines, order: partition", True),
        ("files: ./landing, layout: kcat", True),
        ("files: ./landing, layout: kcat, order: time", False),
        ('kafka: {bootstrap_servers: "a:1", topics: [x]}', True),
        ('kafka: {bootstrap_servers: "a:1", topics: [x]}, order: time', False),
        ("table: ./messages", True),
    ],
)
def test_partitions_are_in_order_unless_the_messages_are_lines_of_files(
    load: Load, place: str, is_by_partition: bool
) -> None:
    config = load(f"pipeline: shop\nlakehouse: ./lake\nsources:\n  feed: {{format: datahub_blob, {place}}}\n")
    assert config.sources["feed"].is_ordered_by_partition is is_by_partition


def test_settings_of_a_table_come_from_every_entry_that_matches(load: Load) -> None:
    config = load(WHOLE)

    line = config.settings("feed", "shop", None, "order_line")
    assert (line.history, line.keys, line.replica, line.exclude) == (
        True,
        ("order_id", "line_no"),
        "crm.order_line",
        False,
    )
    assert line.columns["price"].type == "decimal(12,2)"
    assert line.replica_parts == ("crm", None, "order_line")
    assert config.settings("feed", "shop", None, "tmp_1").exclude
    assert config.settings("feed", "other", None, "orders") == config.settings("feed", "x", "y", "z")
    assert config.settings("feed", "shop", None, "order_line") is line


@pytest.mark.parametrize(
    ("pattern", "name", "is_match"),
    [
        ("shop.*", ("shop", None, "orders"), True),
        ("shop.*", ("shop", "public", "orders"), False),
        ("shop.*.*", ("shop", "public", "orders"), True),
        ("shop.*", ("shop", None, "a.b"), True),
        ("*.orders", ("a.b", None, "orders"), True),
        ("`a.b`.orders", ("a.b", None, "orders"), True),
        ("a.b.orders", ("a.b", None, "orders"), False),
        ("shop.order_?", ("shop", None, "order_1"), True),
        ("shop.order_[12]", ("shop", None, "order_3"), False),
        ("Shop.*", ("shop", None, "orders"), False),
        ("orders", ("shop", None, "orders"), False),
        ("orders", (None, None, "orders"), True),
        ("shop.a``b", ("shop", None, "a`b"), False),
        ("shop.`a``b`", ("shop", None, "a`b"), True),
        ("shop.x\ny", ("shop", None, "x\ny"), True),
        ("数据.订单*", ("数据", None, "订单_1"), True),
    ],
)
def test_wildcards_stay_inside_one_part(
    load: Load, pattern: str, name: tuple[str | None, str | None, str], is_match: bool
) -> None:
    escaped = pattern.replace("\n", "\\n")
    text = WHOLE.partition("tables:")[0] + f'tables:\n  - match: "{escaped}"\n    history: true\n'
    if pattern == "shop.a``b":
        assert refusal(load, text).condition == "CONFIG_BAD_VALUE"
        return

    assert load(text).settings("feed", *name).history is is_match


def test_an_entry_of_one_source_says_nothing_of_the_others(load: Load) -> None:
    text = (
        WHOLE.partition("tables:")[0]
        + """
tables:
  - {match: "shop.*", history: true}
  - {match: shop.a, source: crm, replica: crm.a, history: false}
"""
    )
    config = load(text)
    found = {source: config.settings(source, "shop", None, "a") for source in ("orders", "crm", None)}
    assert {source: settings.replica for source, settings in found.items()} == {
        "orders": None,
        "crm": "crm.a",
        None: None,
    }
    assert [settings.history for settings in found.values()] == [True, False, True]

    fault = refusal(load, text.replace("source: crm", "source: crn"))
    assert fault.condition == "CONFIG_BAD_VALUE"
    assert "tables[1].source" in fault.where
    assert "'crn'" in fault.found
    assert "did you mean 'crm'?" in fault.action


def test_later_entries_win_field_by_field_and_column_by_column(load: Load) -> None:
    config = load(
        WHOLE.partition("tables:")[0]
        + """
tables:
  - match: "*.*"
    history: {track: [price]}
    deletes: soft
    bad_values: park
    columns: {a: {type: int}, b: {type: date}}
  - match: "shop.*"
    columns: {a: {unsigned: true}, c: {decode: gbk}}
    schema_policy: evolve
    bad_values: null
  - {match: "shop.plain", history: false}
"""
    )
    orders = config.settings("feed", "shop", None, "orders")

    assert (orders.history, orders.track, orders.deletes, orders.schema_policy, orders.bad_values) == (
        True,
        ("price",),
        "soft",
        "evolve",
        "null",
    )
    assert (orders.columns["a"].type, orders.columns["a"].unsigned, orders.columns["b"].type) == (
        "int",
        True,
        "date",
    )
    assert orders.columns["c"].decode == "gbk"
    assert config.settings("feed", "shop", None, "plain").history is False
    assert config.settings("feed", "shop", None, "plain").track is None


@pytest.mark.parametrize(
    ("old", "new", "condition", "where", "advice"),
    [
        ("pipeline: shop", "pipelin: shop", "CONFIG_UNKNOWN_KEY", "pipelin", "'pipeline'"),
        ("pipeline: shop", "", "CONFIG_MISSING_KEY", "pipeline", "`pipeline:`"),
        ("pipeline: shop", "pipeline: Shop", "CONFIG_BAD_VALUE", "pipeline", "small letters"),
        ("pipeline: shop", "pipeline: 7", "CONFIG_WRONG_TYPE", "pipeline", "a text"),
        ("./lakehouse", "[a]", "CONFIG_WRONG_TYPE", "lakehouse", "a text"),
        ("./lakehouse", "''", "CONFIG_BAD_VALUE", "lakehouse", "URL"),
        (
            "./lakehouse",
            "{catalog: main, schema_prefx: s_}",
            "CONFIG_UNKNOWN_KEY",
            "lakehouse.schema_prefx",
            "'schema_prefix'",
        ),
        ("./lakehouse", "{catalog: main}", "CONFIG_MISSING_KEY", "checkpoints", "/Volumes/"),
        ("./lakehouse", "dbfs:/mnt/lake", "CONFIG_BAD_VALUE", "lakehouse", "three slashes"),
        ("./lakehouse", "/Volumes/main/shop/files/lake", "CONFIG_BAD_VALUE", "lakehouse", "a catalog"),
        ("./lakehouse", "dbfs:///Volumes/main/shop/files", "CONFIG_BAD_VALUE", "lakehouse", "a catalog"),
        ("./lakehouse", "file:///dbfs/mnt/lake", "CONFIG_BAD_VALUE", "lakehouse", "a catalog"),
        ("./lakehouse", "s3:/bucket/lake", "CONFIG_BAD_VALUE", "lakehouse", "two slashes"),
        ("./lakehouse", "s3:bucket/lake", "CONFIG_BAD_VALUE", "lakehouse", "two slashes"),
        (
            "files: ./landing/orders",
            "files: s3:landing",
            "CONFIG_BAD_VALUE",
            "sources.orders.files",
            "slashes",
        ),
        (
            "files: ./landing/orders\n    layout: kcat",
            "table: s3:bucket/feed",
            "CONFIG_BAD_VALUE",
            "sources.orders.table",
            "two slashes",
        ),
        (
            "files: ./landing/orders",
            "table: a.b.c",
            "CONFIG_SOURCE_PLACE",
            "sources.orders.layout",
            "for files alone",
        ),
        (
            "    kafka:",
            "    follow_links: false\n    kafka:",
            "CONFIG_SOURCE_PLACE",
            "sources.crm.follow_links",
            "for files alone",
        ),
        (
            "    kafka:",
            "    auto_loader: false\n    kafka:",
            "CONFIG_SOURCE_PLACE",
            "sources.crm.auto_loader",
            "leave it out",
        ),
        (
            "failOnDataLoss: false",
            "IncludeHeaders: false",
            "CONFIG_BAD_VALUE",
            "sources.crm.kafka.IncludeHeaders",
            "always read",
        ),
        ("./lakehouse", "./lake\ncheckpoints: ./elsewhere", "CONFIG_BAD_VALUE", "checkpoints", "leave"),
        ("./lakehouse", "./landing/orders/out", "CONFIG_SOURCES_OVERLAP", "sources.orders.files", "outside"),
        (
            "pairing_timeout",
            "pairing_timout",
            "CONFIG_UNKNOWN_KEY",
            "sources.orders.pairing_timout",
            "'pairing_timeout'",
        ),
        ("database: shop", "databse: shop", "CONFIG_UNKNOWN_KEY", "sources.orders.databse", "'database'"),
        ("database: shop", "database: 5", "CONFIG_WRONG_TYPE", "sources.orders.database", "a text"),
        ("database: shop", "name: x", "CONFIG_UNKNOWN_KEY", "sources.orders.name", "timezone"),
        (
            "datahub_tuple",
            "datahub_tupel",
            "CONFIG_UNKNOWN_FORMAT",
            "sources.orders.format",
            "'datahub_tuple'",
        ),
        ("    format: datahub_tuple\n", "", "CONFIG_MISSING_KEY", "sources.orders.format", "datahub_blob"),
        (
            "    format: datahub_tuple",
            "    formt: datahub_tuple",
            "CONFIG_UNKNOWN_KEY",
            "sources.orders.formt",
            "'format'",
        ),
        (
            "  orders:\n    format",
            "  orders:\n    Format",
            "CONFIG_UNKNOWN_KEY",
            "sources.orders.Format",
            "'format'",
        ),
        (
            "    format: datahub_tuple",
            "    databse: x",
            "CONFIG_UNKNOWN_KEY",
            "sources.orders.databse",
            "'database'",
        ),
        (
            "    files: ./landing/orders",
            "    fils: ./landing/orders",
            "CONFIG_UNKNOWN_KEY",
            "sources.orders.fils",
            "'files'",
        ),
        ("sources:", "surces:", "CONFIG_UNKNOWN_KEY", "surces", "'sources'"),
        ('match: "shop.*"', 'mach: "shop.*"', "CONFIG_UNKNOWN_KEY", "tables[0].mach", "'match'"),
        ("    files: ./landing/orders\n", "", "CONFIG_SOURCE_PLACE", "sources.orders", "exactly one"),
        (
            "    files: ./landing/orders\n",
            "    files: a\n    table: b\n",
            "CONFIG_SOURCE_PLACE",
            "sources.orders",
            "exactly one",
        ),
        ("topics: [crm.customer]", "topic: [x]", "CONFIG_UNKNOWN_KEY", "sources.crm.kafka.topic", "'topics'"),
        (
            "topics: [crm.customer]",
            "subscribe: x",
            "CONFIG_UNKNOWN_KEY",
            "sources.crm.kafka.subscribe",
            "topics",
        ),
        (
            "bootstrap_servers",
            "bootstrap.servers",
            "CONFIG_UNKNOWN_KEY",
            "sources.crm.kafka.bootstrap.servers",
            "'bootstrap_servers'",
        ),
        (
            "failOnDataLoss: false",
            "startingOffset: latest",
            "CONFIG_UNKNOWN_KEY",
            "sources.crm.kafka.startingOffset",
            "did you mean 'startingOffsets'?",
        ),
        (
            "failOnDataLoss: false",
            "security.protocol: SASL_SSL",
            "CONFIG_UNKNOWN_KEY",
            "sources.crm.kafka.security.protocol",
            "write `kafka.security.protocol`",
        ),
        (
            "kafka.sasl.jaas.config",
            "kafak.sasl.jaas.config",
            "CONFIG_UNKNOWN_KEY",
            "sources.crm.kafka.kafak.sasl.jaas.config",
            "write `kafka.sasl.jaas.config`",
        ),
        (
            'bootstrap_servers: "localhost:9092", ',
            "",
            "CONFIG_MISSING_KEY",
            "sources.crm.kafka.bootstrap_servers",
            "bootstrap_servers",
        ),
        (
            "topics: [crm.customer]",
            "topics: [x], topic_pattern: y",
            "CONFIG_SOURCE_PLACE",
            "sources.crm.kafka",
            "topics",
        ),
        ("kcat", "kcats", "CONFIG_BAD_VALUE", "sources.orders.layout", "'kcat'"),
        (
            "localhost:9092",
            "localhost",
            "CONFIG_BAD_VALUE",
            "sources.crm.kafka.bootstrap_servers",
            "host:port for each broker",
        ),
        (
            "localhost:9092",
            "a:1, b",
            "CONFIG_BAD_VALUE",
            "sources.crm.kafka.bootstrap_servers",
            "host:port for each broker",
        ),
        (
            "topics: [crm.customer]",
            "topic_pattern: '*.orders'",
            "CONFIG_BAD_VALUE",
            "sources.crm.kafka.topic_pattern",
            "nothing to repeat",
        ),
        ("Asia/Shanghai", "Asia/Shanghia", "CONFIG_BAD_VALUE", "sources.orders.timezone", "'Asia/Shanghai'"),
        ("2 hours", "2 huors", "CONFIG_BAD_VALUE", "sources.orders.pairing_timeout", "'hours'"),
        ("2 hours", "10", "CONFIG_BAD_VALUE", "sources.orders.pairing_timeout", "'10 minutes'"),
        (
            "2 hours",
            "99999999999999999999 days",
            "CONFIG_BAD_VALUE",
            "sources.orders.pairing_timeout",
            "shorter",
        ),
        ("epoch: 3", "epoch: 0", "CONFIG_BAD_VALUE", "sources.orders.epoch", "a number from 1"),
        ("epoch: 3", "epoch: '3'", "CONFIG_WRONG_TYPE", "sources.orders.epoch", "whole number"),
        ("epoch: 3", "epoch: true", "CONFIG_WRONG_TYPE", "sources.orders.epoch", "whole number"),
        ("  orders:", "  ../orders:", "CONFIG_BAD_VALUE", "sources", "letter"),
        ('match: "shop.*"', "match: a.b.c.d", "CONFIG_BAD_VALUE", "tables[0].match", "database.table"),
        ('match: "shop.*"', 'match: "shop."', "CONFIG_BAD_VALUE", "tables[0].match", "database.table"),
        ("history: true", "histroy: true", "CONFIG_UNKNOWN_KEY", "tables[0].histroy", "'history'"),
        ("history: true", "history: 'yes'", "CONFIG_WRONG_TYPE", "tables[0].history", "true or false"),
        ("history: true", "history: {trak: [a]}", "CONFIG_UNKNOWN_KEY", "tables[0].history.trak", "'track'"),
        ("history: true", "history: {track: a}", "CONFIG_WRONG_TYPE", "tables[0].history.track", "a list"),
        ("[order_id, line_no]", "order_id", "CONFIG_WRONG_TYPE", "tables[1].keys", "a list"),
        ("[order_id, line_no]", "[a, a]", "CONFIG_BAD_VALUE", "tables[1].keys", "once"),
        ("[order_id, line_no]", "[]", "CONFIG_BAD_VALUE", "tables[1].keys", "at least 1"),
        (
            "{decode: utf8}",
            "{decod: utf8}",
            "CONFIG_UNKNOWN_KEY",
            "tables[1].columns.photo.decod",
            "'decode'",
        ),
        ("{decode: utf8}", "{decode: utf9}", "CONFIG_BAD_VALUE", "tables[1].columns.photo.decode", "'utf8'"),
        ("decimal(12, 2)", "decimal(40,2)", "CONFIG_BAD_VALUE", "tables[1].columns.price.type", "1 to 38"),
        ("decimal(12, 2)", "integr", "CONFIG_BAD_VALUE", "tables[1].columns.price.type", "'int'"),
        ("crm.order_line", "order_line", "CONFIG_BAD_VALUE", "tables[1].replica", "database.table"),
        (
            "exclude: true",
            "exclude: true\n    exclude: false",
            "CONFIG_DUPLICATE_KEY",
            "line 26",
            "one of the two",
        ),
        ("exclude: true", "deletes: sotf", "CONFIG_BAD_VALUE", "tables[2].deletes", "'soft'"),
        ("exclude: true", "schema_policy: evolv", "CONFIG_BAD_VALUE", "tables[2].schema_policy", "'evolve'"),
        (
            "${env:SECRET}",
            "${env:SECRETS}",
            "CONFIG_ENV_MISSING",
            "sources.crm.kafka.kafka.sasl.jaas.config",
            "SECRETS",
        ),
        ("${env:SECRET}", "${secret:a/b}", "CONFIG_SECRET_UNAVAILABLE", "sources.crm.kafka", "${env:NAME}"),
        ("${env:SECRET}", "${evn:X}", "CONFIG_BAD_REFERENCE", "sources.crm.kafka", "'env'"),
        ("tables:", "tables: [", "CONFIG_NOT_YAML", "line", "indentation by spaces"),
        ("./lakehouse", "./mainstem.yml", "CONFIG_BAD_VALUE", "lakehouse", "name a folder"),
        ("./lakehouse", "./mainstem.yml/below", "CONFIG_BAD_VALUE", "lakehouse", "name a folder"),
        ('"decimal(12, 2)"', "decimal(12", "CONFIG_BAD_VALUE", "tables[1].columns.price.type", "in quotes"),
        ("{decode: utf8}", "string", "CONFIG_WRONG_TYPE", "tables[1].columns.photo", "{type: "),
    ],
)
def test_refusals_name_place_and_remedy(
    load: Load, old: str, new: str, condition: str, where: str, advice: str
) -> None:
    refused = refusal(load, WHOLE.replace(old, new, 1))
    (error,) = [each for each in refused.faults if each.condition == condition]

    assert error.exit_code == 2
    assert "mainstem.yml: " in error.where
    assert where in error.where
    assert advice in error.action
    assert len(refused.faults) == (2 if new in TWO_FAULTS else 1), "nothing that only follows is told"


def test_limits_of_files_hold_for_dumps_of_any_source_and_headers_may_be_asked_for(load: Load) -> None:
    limits = "    max_gzip_ratio: 9\n    max_file_messages: 7\n    kafka:"
    text = WHOLE.replace("    kafka:", limits).replace("failOnDataLoss: false", "includeHeaders: true")
    crm = load(text).sources["crm"]
    assert (crm.max_gzip_ratio, crm.max_file_messages) == (9, 7)


@pytest.mark.parametrize("text", ["", "- a\n", "just text"])
def test_a_file_that_is_no_mapping_is_refused(load: Load, text: str) -> None:
    assert refusal(load, text).condition == "CONFIG_WRONG_TYPE"


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError) as caught:
        load_config(tmp_path / "none.yml", formats=FORMATS)

    assert caught.value.condition == "CONFIG_NOT_FOUND"
    assert "none.yml" in caught.value.where


@pytest.mark.parametrize(
    ("checkpoints", "landing", "is_refused"),
    [
        ("/Volumes/main/shop_ops/files/checkpoints", "/Volumes/main/shop_ops/files", True),
        ("/Volumes/main/shop_ops/files", "/Volumes/main/shop_ops/files", True),
        ("dbfs:///Volumes/main/shop_ops/files/checkpoints", "/Volumes/MAIN/shop_ops/files", True),
        ("s3://bucket/shop/checkpoints", "s3a://bucket/shop/", True),
        ("/Volumes/main/shop_ops/files", "/Volumes/main/shop_ops/landing", False),
        ("/Volumes/main/shop_ops/files", "/Volumes/main/shop_ops/files/landing", False),
    ],
)
def test_no_landing_folder_contains_the_checkpoints_of_a_catalog(
    load: Load, checkpoints: str, landing: str, is_refused: bool
) -> None:
    text = f"""
pipeline: shop
lakehouse: {{catalog: main, schema_prefix: shop_}}
checkpoints: {checkpoints}
sources:
  orders: {{format: datahub_blob, files: '{landing}'}}
"""
    if not is_refused:
        load(text)
        return
    error = refusal(load, text)
    assert (error.condition, "sources.orders.files" in error.where) == ("CONFIG_SOURCES_OVERLAP", True)
    assert error.found == "the checkpoints lie inside the folder that 'orders' reads"
    assert error.action == "keep the checkpoints outside the landing folders"


@pytest.mark.parametrize(
    ("one", "other", "is_refused"),
    [
        ("files: ./landing", "files: landing/", True),
        ("files: ./landing", "files: ./landing/deeper", True),
        ("files: ./landing", "files: ./landing2", False),
        ("files: ./link", "files: ./landing", True),
        ("files: s3a://b/x", "files: s3a://b/x/y", True),
        ("files: s3://b/x", "files: S3A://b//x/y", True),
        ("files: s3://b/x", "files: s3a://b/xy", False),
        ("files: s3://x/b", "files: s3:///x/b", False),
        ("files: abfs://c@a.dfs.core.windows.net/x", "files: abfss://c@a.dfs.core.windows.net/x", True),
        ("files: dbfs:/Volumes/a/b/c", "files: /Volumes/a/b/c/d", True),
        ("files: /Volumes/a/B/c", "files: /Volumes/A/b/C/d", True),
        ("files: /Volumes/a/b/c/d", "files: /Volumes/a/b/c/D", False),
        ("files: dbfs:/mnt/x", "files: /dbfs/mnt/x", True),
        ("table: main.raw.events", "table: main.raw.events", True),
        ("table: main.raw.t", "table: MAIN.raw.T", True),
        ("table: main.raw.t", "table: '`main`.raw.t'", True),
        ("table: 'main.`raw.t`'", "table: main.raw.t", False),
        ("table: s3://b/raw", "table: s3a://b/raw", True),
        ("table: ./raw", "table: raw/", True),
        (
            "kafka: {bootstrap_servers: 'a:1,b:1', topics: [x, y]}",
            "kafka: {bootstrap_servers: 'b:1', topics: [y]}",
            True,
        ),
        (
            "kafka: {bootstrap_servers: 'a:1', topics: [x]}",
            "kafka: {bootstrap_servers: 'b:1', topics: [x]}",
            False,
        ),
        (
            "kafka: {bootstrap_servers: 'a:1', topics: [x]}",
            "kafka: {bootstrap_servers: 'a:1', topics: [z]}",
            False,
        ),
        (
            "kafka: {bootstrap_servers: 'a:1', topic_pattern: 'crm.*'}",
            "kafka: {bootstrap_servers: 'a:1', topics: [crm.a]}",
            True,
        ),
        (
            "kafka: {bootstrap_servers: 'a:1', topics: [x, crm.a]}",
            "kafka: {bootstrap_servers: 'a:1', topic_pattern: 'crm.*'}",
            True,
        ),
        (
            "kafka: {bootstrap_servers: 'a:1', topic_pattern: 'crm.*'}",
            "kafka: {bootstrap_servers: 'a:1', topic_pattern: 'crm.*'}",
            True,
        ),
        (
            "kafka: {bootstrap_servers: 'a:1', topic_pattern: 'crm.*'}",
            "kafka: {bootstrap_servers: 'a:1', topics: [shop.a]}",
            False,
        ),
    ],
)
def test_two_sources_never_read_one_place(
    load: Load, tmp_path: Path, one: str, other: str, is_refused: bool
) -> None:
    (tmp_path / "landing").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "landing")
    text = f"""
pipeline: shop
lakehouse: ./lakehouse
sources:
  first: {{format: datahub_blob, {one}}}
  second: {{format: datahub_blob, {other}}}
"""
    if is_refused:
        error = refusal(load, text)
        assert error.condition == "CONFIG_SOURCES_OVERLAP"
        assert "'first'" in error.found
        assert "'second'" in error.found
    else:
        load(text)


def test_thousands_of_sources_are_checked_without_a_look_at_each_pair(
    load: Load, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[str] = []
    real = os.path.realpath
    monkeypatch.setattr(os.path, "realpath", lambda place: looks.append(place) or real(place))
    sources = "".join(f"  s{n}: {{format: datahub_blob, files: ./landing/s{n}}}\n" for n in range(300))
    kafka = "".join(
        f"  k{n}: {{format: datahub_blob, kafka: {{bootstrap_servers: 'a:1', topics: [t{n}]}}}}\n"
        for n in range(300)
    )
    config = load(f"pipeline: shop\nlakehouse: ./lakehouse\nsources:\n{sources}{kafka}")
    assert len(config.sources) == 600
    assert len(looks) <= 5 * 300


def test_thousands_of_sources_with_patterns_of_topics_are_not_compared_in_pairs(
    load: Load, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thousand of them took six seconds in each command, and twice as many four times as long."""
    compared: list[str] = []
    real = validation._shared
    monkeypatch.setattr(
        validation, "_shared", lambda one, other: compared.append(one.name) or real(one, other)
    )
    kafka = "kafka: {{bootstrap_servers: 'a:1', topic_pattern: 't{0}[.].*'}}"
    sources = "".join(f"  k{n}: {{format: datahub_blob, {kafka.format(n)}}}\n" for n in range(300))
    config = load(f"pipeline: shop\nlakehouse: ./lakehouse\nsources:\n{sources}")
    assert (len(config.sources), compared) == (300, [])


def test_options_of_sparks_reader_are_taken_in_any_case(load: Load) -> None:
    written = "startingoffsets: latest, KAFKA.group.id: g, databricks.serviceCredential: kafka-login"
    kafka = load(WHOLE.replace("failOnDataLoss: false", written)).sources["crm"].kafka
    assert kafka is not None
    assert kafka.options == {
        "startingoffsets": "latest",
        "KAFKA.group.id": "g",
        "databricks.serviceCredential": "kafka-login",
        "kafka.sasl.jaas.config": "s3cret",
    }


def test_a_secret_is_never_shown(load: Load) -> None:
    config = load(WHOLE)
    error = refusal(
        load,
        WHOLE.replace("topics: [crm.customer]", "topics: 7").replace(
            "kafka.sasl.jaas.config: ", "kafka.sasl: "
        ),
    )
    literal = refusal(load, WHOLE.replace('"${env:SECRET}"', "[s3cret]"))

    assert "s3cret" not in repr(config) + str(config) + str(error) + str(literal)


def test_references_are_replaced_inside_texts(load: Load, tmp_path: Path) -> None:
    config = load(WHOLE.replace("./lakehouse", "./lake_${env:NUMBER}/x"))

    assert config.root == str(tmp_path / "lake_7" / "x")


@pytest.mark.parametrize(
    ("lakehouse", "root"),
    [
        ("s3a://bucket/lake/", "s3a://bucket/lake"),
        ("/data/lake/", "/data/lake"),
        ("file:///data/lake", "/data/lake"),
    ],
)
def test_root_is_absolute_without_a_slash_at_its_end(load: Load, lakehouse: str, root: str) -> None:
    assert load(WHOLE.replace("./lakehouse", lakehouse)).root == root


def test_a_catalog_keeps_its_checkpoints_in_a_volume(load: Load) -> None:
    config = load(
        WHOLE.replace(
            "./lakehouse", "{catalog: main, schema_prefix: shop_}\ncheckpoints: /Volumes/main/shop/cp/"
        )
    )

    assert config.root == config.checkpoints == "/Volumes/main/shop/cp"


def test_anchors_and_merges_are_plain_yaml(load: Load) -> None:
    config = load(
        WHOLE.partition("tables:")[0]
        + "tables:\n  - &all {match: 'shop.*', history: true}\n  - {<<: *all, match: 'crm.*', deletes: "
        "soft}\n"
    )

    assert config.settings("feed", "crm", None, "x").history


def test_digest_follows_meaning_and_not_secrets(load: Load) -> None:
    digest = load(WHOLE).digest()

    assert load(WHOLE.replace("# x", "")).digest() == digest
    assert load(WHOLE.replace("${env:SECRET}", "another")).digest() == digest
    assert load(WHOLE.replace("epoch: 3", "epoch: 4")).digest() != digest
    assert load(WHOLE.replace("database: shop", "database: store")).digest() != digest


def test_rules_travel_to_workers(load: Load) -> None:
    config = load(WHOLE)

    rules = pickle.loads(pickle.dumps(config.rules))

    assert rules.settings("feed", "shop", None, "order_line") == config.settings(
        "feed", "shop", None, "order_line"
    )


def test_a_table_of_messages_has_columns_of_its_own_names(load: Load) -> None:
    text = (
        "pipeline: shop\nlakehouse: ./lake\nsources:\n  crm: {format: datahub_blob, table: ./raw, "
        "columns: {value: payload, offset: seq}}\n"
    )
    assert load(text).sources["crm"].columns == {"value": "payload", "offset": "seq"}
    with pytest.raises(ConfigurationError) as refused:
        load(text.replace("table: ./raw", "files: ./raw"))
    assert refused.value.condition == "CONFIG_SOURCE_PLACE"
    with pytest.raises(ConfigurationError):
        load(text.replace("value: payload", "values: payload"))


def test_a_table_beside_another_place_is_the_formats_own_setting(tmp_path: Path) -> None:
    path = tmp_path / "mainstem.yml"
    path.write_text(
        "pipeline: shop\nlakehouse: ./lake\nsources:\n  crm: {format: datahub_tuple, files: ./raw, table: "
        "price}\n"
    )
    source = load_config(path, formats={"datahub_tuple": TableOptions}).sources["crm"]
    assert (source.table, source.files, source.options.model_dump()) == (
        None,
        str(tmp_path / "raw"),
        {"database": None, "table": "price"},
    )
    path.write_text(path.read_text().replace("files: ./raw, ", ""))
    assert load_config(path, formats={"datahub_tuple": TableOptions}).sources["crm"].table == "price"


FEEDS = """
pipeline: shop
lakehouse: ./lakehouse
sources:
  orders: {format: datahub_blob, files: "FOLDER"}
  stock: {format: datahub_blob, files: ./landing/stock}
"""


def validated(folder: Path, place: str) -> Config:
    (folder / "landing" / "stock").mkdir(parents=True)
    (folder / "landing" / "orders").mkdir()
    (folder / "landing" / "orders" / "a.jsonl").write_text("")
    (folder / "mainstem.yml").write_text(FEEDS.replace("FOLDER", place))
    environ = {"ELSEWHERE": "/none", "VOLUME": "/Volumes/none_of_ours"}
    return validated_config(folder / "mainstem.yml", formats=FORMATS, environ=environ)


@pytest.mark.parametrize(
    ("place", "found", "advice"),
    [
        ("./landing/ordrs", "no folder", "did you mean 'orders' in"),
        ("./lnding/orders", "no folder", "create the folder"),
        ("/no/such/folder", "no folder /no/such/folder", "create the folder"),
        ("./landing/orders/a.jsonl", "a file, where a folder", "the folder that it is in"),
        ("${env:ELSEWHERE}/orders", "no folder ${env:ELSEWHERE}/orders", "create the folder"),
        (f"./{'long/' * 20}${{env:ELSEWHERE}}", "of that name, which is not shown", "correct `files:`"),
    ],
)
def test_validate_names_a_landing_folder_that_does_not_exist(
    tmp_path: Path, place: str, found: str, advice: str
) -> None:
    with pytest.raises(ConfigurationError) as caught:
        validated(tmp_path, place)

    assert (caught.value.condition, caught.value.exit_code) == ("LANDING_FOLDER_MISSING", 2)
    assert caught.value.where == f"{tmp_path / 'mainstem.yml'}: sources.orders.files (line 5, column 34)"
    assert found in caught.value.found
    assert advice in caught.value.action


@pytest.mark.parametrize(
    "place",
    [
        "./landing/orders",
        "s3a://bucket/orders",
        "/Volumes/none_of_ours/orders",
        "${env:VOLUME}/orders",
    ],
)
def test_a_landing_folder_that_this_machine_cannot_see_is_not_judged(tmp_path: Path, place: str) -> None:
    assert set(validated(tmp_path, place).sources) == {"orders", "stock"}


def test_every_landing_folder_that_is_missing_is_named(tmp_path: Path) -> None:
    (tmp_path / "mainstem.yml").write_text(FEEDS.replace("FOLDER", "./landing/orders"))
    with pytest.raises(ConfigurationError) as caught:
        validated_config(tmp_path / "mainstem.yml", formats=FORMATS)

    assert [fault.where.partition(": ")[2] for fault in caught.value.faults] == [
        "sources.orders.files (line 5, column 34)",
        "sources.stock.files (line 6, column 33)",
    ]


def test_a_configuration_is_loaded_before_its_feeds_have_a_folder(load: Load) -> None:
    assert set(load(WHOLE).sources) == {"orders", "crm"}
