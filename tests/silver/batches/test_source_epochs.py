"""The newest epochs of the sources, also of those that the configuration does not have any more."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from framework.config.model import load_config
from framework.contracts.epochs import BEGUN, EpochRow
from silver.batches.source_epochs import SourceEpochs
from silver.epochs.history import History
from silver.layer import LAYER
from tests.end_to_end.test_identity import Topics, item, mysql


def test_a_source_that_is_not_configured_any_more_keeps_its_newest_epoch(tmp_path: Path) -> None:
    file = tmp_path / "mainstem.yml"
    file.write_text(
        "pipeline: p\nlakehouse: ./lake\nsources:\n  feed: {format: debezium, files: ./in, epoch: 2}\n"
    )
    config = load_config(file, formats=LAYER.options())
    begun = (EpochRow("gone", 3, BEGUN), EpochRow("more", 1, BEGUN), EpochRow("more", 2, BEGUN, "t", 0, 5))
    assert SourceEpochs(config, History(begun)).newest == {"feed": 2, "gone": 3, "more": 2}


@pytest.mark.slow
def test_each_message_of_a_source_that_was_taken_out_keeps_its_outcome(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    topics = Topics(tmp_path, capsys, {"feed": "format: debezium", "gone": "epoch: 3, format: debezium"})
    topics.land("feed", [mysql(0, item(1))])
    topics.land(
        "gone", [mysql(0, item(1)).replace("shop.item", "shop.more").replace('\\"item\\"', '\\"more\\"')]
    )
    assert topics.command("run")[0] == 0
    file = tmp_path / "mainstem.yml"
    kept = [line for line in file.read_text().splitlines() if "gone" not in line]
    file.write_text("\n".join([*kept, ""]))
    assert topics.status()["without_fate"] == 0
