"""All faults of a configuration are told at once, each with its line and column, and no fault twice."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import pytest

from framework.cli import main
from framework.config.model import load_config
from framework.errors import ConfigurationError
from framework.pipeline.session import option_models

MANY = """\
pipelin: shop
lakehouse: ./lakehouse
sources:
  orders:
    format: debezum
    fils: ./landing/orders
    pairing_timout: 10 minutes
  crm:
    format: debezium
    kafka: {bootstrap_servers: "b:9092", topic: [t], kafka.sasl: "${env:NO_SUCH}"}
    epoch: "2"
  stock:
    format: canal
tables:
  - match: "shop.*"
    deletes: sotf
    histroy: true
  - {match: shop.x, keys: id}
quality:
  sources: {ordrs: 5 minutes}
"""


def faults(folder: Path, text: str) -> list[tuple[str, str]]:
    """Code and place of each fault."""
    (folder / "mainstem.yml").write_text(text)
    with pytest.raises(ConfigurationError) as refused:
        load_config(folder / "mainstem.yml", formats=option_models(), environ={})
    return [(each.condition, each.where.partition("mainstem.yml: ")[2]) for each in refused.value.faults]


def test_every_fault_is_told_in_the_order_of_the_file(tmp_path: Path) -> None:
    assert faults(tmp_path, MANY) == [
        ("CONFIG_UNKNOWN_KEY", "pipelin (line 1, column 1)"),
        ("CONFIG_UNKNOWN_FORMAT", "sources.orders.format (line 5, column 5)"),
        ("CONFIG_UNKNOWN_KEY", "sources.orders.fils (line 6, column 5)"),
        ("CONFIG_UNKNOWN_KEY", "sources.orders.pairing_timout (line 7, column 5)"),
        ("CONFIG_UNKNOWN_KEY", "sources.crm.kafka.topic (line 10, column 42)"),
        ("CONFIG_ENV_MISSING", "sources.crm.kafka.kafka.sasl (line 10, column 54)"),
        ("CONFIG_WRONG_TYPE", "sources.crm.epoch (line 11, column 5)"),
        ("CONFIG_SOURCE_PLACE", "sources.stock (line 12, column 3)"),
        ("CONFIG_BAD_VALUE", "tables[0].deletes (line 16, column 5)"),
        ("CONFIG_UNKNOWN_KEY", "tables[0].histroy (line 17, column 5)"),
        ("CONFIG_WRONG_TYPE", "tables[1].keys (line 18, column 21)"),
        ("CONFIG_UNKNOWN_KEY", "quality.sources.ordrs (line 20, column 13)"),
    ]


GOOD = "pipeline: shop\nlakehouse: ./lake\nsources:\n  a: {format: canal, files: ./a}\n"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            "a: 1\na: 2\nb:\n  c: 1\n  c: 2\n",
            [("CONFIG_DUPLICATE_KEY", "line 2, column 1"), ("CONFIG_DUPLICATE_KEY", "line 5, column 3")],
        ),
        # a key that is missing at the top has no place in the file
        (GOOD.replace("pipeline: shop\n", ""), [("CONFIG_MISSING_KEY", "pipeline")]),
        (GOOD + "alerts: [{}]\n", [("CONFIG_BAD_VALUE", "alerts[0] (line 5, column 10)")]),
        (
            GOOD.replace("format: canal, ", ""),
            [("CONFIG_MISSING_KEY", "sources.a.format (line 4, column 3)")],
        ),
        # the place of what a merge brings is where it is written
        (
            GOOD + "tables:\n  - &x {match: a.b, histroy: true}\n  - {<<: *x, match: a.c}\n",
            [
                ("CONFIG_UNKNOWN_KEY", "tables[0].histroy (line 6, column 21)"),
                ("CONFIG_UNKNOWN_KEY", "tables[1].histroy (line 6, column 21)"),
            ],
        ),
        # without its variable, a webhook is no address: that is no second fault
        (
            GOOD + "alerts: [{webhook: '${env:NO_SUCH}'}]\n",
            [("CONFIG_ENV_MISSING", "alerts[0].webhook (line 5, column 11)")],
        ),
    ],
)
def test_a_fault_has_its_place_and_is_told_once(
    tmp_path: Path, text: str, told: list[tuple[str, str]]
) -> None:
    assert faults(tmp_path, text) == told


def test_validate_prints_all_faults_and_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "mainstem.yml"
    file.write_text(GOOD.replace("sources:", "tabels: []\nsources:"))
    assert main(["validate", "-c", str(file)]) == 2
    printed = capsys.readouterr().err
    assert [line for line in printed.splitlines() if line.startswith("error")] == [
        "error: CONFIG_UNKNOWN_KEY",
        "error: LANDING_FOLDER_MISSING",
    ]
    assert "did you mean 'tables'?" in printed
    assert main(["validate", "-c", str(file), "--json"]) == 2
    answer = json.loads(capsys.readouterr().out)
    assert (answer["valid"], [fault["code"] for fault in answer["faults"]]) == (
        False,
        ["CONFIG_UNKNOWN_KEY", "LANDING_FOLDER_MISSING"],
    )
    assert answer["faults"][0]["where"] == f"{file}: tabels (line 3, column 1)"


def test_the_other_faults_survive_a_pickle_and_are_in_the_text() -> None:
    first, other = (ConfigurationError(code, found="f", where="w", action="a") for code in ("A_B", "C_D"))
    first.others = (other,)
    again = pickle.loads(pickle.dumps(first))
    assert [each.condition for each in again.faults] == ["A_B", "C_D"]
    assert (
        str(again)
        == str(first)
        == ("A_B\n  found: f\n  where: w\n  do:    a\nC_D\n  found: f\n  where: w\n  do:    a")
    )
