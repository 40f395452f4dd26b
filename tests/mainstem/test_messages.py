"""Configurations, formats and single messages from Python, without Spark."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import mainstem
from silver.formats import FORMATS

INSERT = (
    '{"database": "shop", "table": "orders", "type": "insert", "ts": 1709200800, "xid": 7125, "commit": '
    "true, "
    '"position": "master.000006:800911", "data": {"id": 1, "total": 12.50}}'
)
CONFIG = """pipeline: shop
lakehouse: ./lakehouse
sources:
  orders: {format: maxwell, files: ./landing}
tables:
  - {match: shop.orders, keys: [id]}
"""


@pytest.fixture
def config(tmp_path: Path) -> Path:
    file = tmp_path / "mainstem.yml"
    file.write_text(CONFIG, encoding="utf-8")
    return file


def test_a_message_is_decoded_into_its_change() -> None:
    decoded = mainstem.decode(INSERT, "maxwell", keys=["id"])
    (change,) = decoded.events
    assert isinstance(change, mainstem.RowChange)
    assert (change.op, change.table, change.keys) == ("insert", "orders", ("id",))
    assert change.after == {"id": "1", "total": "12.50"}
    assert (decoded.reason, decoded.detail) == (None, "")


def test_a_message_that_cannot_be_read_has_the_reason_of_quarantine() -> None:
    compressed = mainstem.decode(b"\x1f\x8b\x08", "maxwell")
    assert (compressed.events, compressed.reason) == ((), "compressed")
    assert "decompress" in compressed.detail
    assert mainstem.decode(INSERT[:-5], "maxwell").reason == "truncated"


def test_a_message_of_a_source_is_read_with_the_settings_of_the_configuration(config: Path) -> None:
    (without,) = mainstem.decode(INSERT, "maxwell").events
    (with_keys,) = mainstem.decode_for_source(INSERT, config, "orders").events
    assert (without.keys, with_keys.keys) == (None, ("id",))
    assert mainstem.decode_for_source(INSERT, mainstem.load_config(config), "orders").events == (with_keys,)


def test_key_topic_and_headers_of_a_message_count() -> None:
    tombstone = mainstem.Message(None, key='{"database": "shop", "table": "orders", "pk.id": 1}')
    (event,) = mainstem.decode(tombstone, "maxwell").events
    assert isinstance(event, mainstem.Control)
    assert event.kind == "tombstone"
    assert mainstem.decode(None, "maxwell").reason == "empty"


def test_a_statement_becomes_its_actions() -> None:
    statement = (
        '{"type": "table-drop", "database": "shop", "table": "orders", "sql": "DROP TABLE orders",'
        ' "ts": 1709200800000, "position": "master.000006:900000"}'
    )
    (event,) = mainstem.decode(statement, "maxwell").events
    assert isinstance(event, mainstem.Control)
    assert (event.kind, event.table) == ("ddl", "orders")
    assert event.actions


@pytest.mark.parametrize(
    ("format", "options", "timezone", "condition", "advice"),
    [
        ("maxwel", {}, "UTC", "UNKNOWN_FORMAT", "did you mean 'maxwell'?"),
        ("debezium", {"decimal": "string"}, "UTC", "CONFIG_BAD_VALUE", "decimals"),
        ("maxwell", {}, "Mars/Base", "CONFIG_BAD_VALUE", "name a zone"),
    ],
)
def test_wrong_settings_are_errors_of_the_configuration(
    format: str, options: dict[str, object], timezone: str, condition: str, advice: str
) -> None:
    with pytest.raises(mainstem.ConfigurationError) as raised:
        mainstem.decode(INSERT, format, options=options, timezone=timezone)
    assert raised.value.condition == condition
    assert advice in raised.value.action


def test_an_unknown_source_is_an_error_with_the_nearest_name(config: Path) -> None:
    with pytest.raises(mainstem.ConfigurationError) as raised:
        mainstem.decode_for_source(INSERT, config, "order")
    assert raised.value.condition == "UNKNOWN_SOURCE"
    assert "did you mean 'orders'?" in raised.value.action


def test_a_configuration_that_is_wrong_or_missing_raises(config: Path) -> None:
    config.write_text(CONFIG.replace("maxwell", "maxwel"), encoding="utf-8")
    with pytest.raises(mainstem.ConfigurationError) as raised:
        mainstem.load_config(config)
    assert raised.value.condition == "CONFIG_UNKNOWN_FORMAT"
    with pytest.raises(mainstem.ConfigurationError) as raised:
        mainstem.load_config(config.with_name("none.yml"))
    assert raised.value.condition == "CONFIG_NOT_FOUND"


def test_the_formats_are_those_of_the_registry() -> None:
    assert [row["name"] for row in mainstem.formats()] == list(FORMATS)
    assert {row["order"] for row in mainstem.formats()} == {"position", "time"}


def test_no_spark_is_imported_for_messages(config: Path) -> None:
    code = (
        "import sys, mainstem; mainstem.load_config(sys.argv[1]); mainstem.formats();"
        "mainstem.decode(b'', 'canal'); print({'pyspark', 'delta', 'great_expectations'} & "
        "sys.modules.keys())"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(config)], capture_output=True, text=True, check=True
    )
    assert done.stdout == "set()\n"
