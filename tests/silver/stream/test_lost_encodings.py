"""What a source has shown is known again after `ops/encodings` was lost."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest.mock import Mock

from pyspark.sql import SparkSession

from framework.contracts.table_names import CHANGES_TABLE, PENDING_TABLE
from framework.contracts.table_schemas import CHANGES
from framework.lakehouse.lakehouse import Lakehouse
from framework.spark.local_frame import local_frame
from silver.batches.encodings import read_encodings
from silver.batches.run_state import RunState
from silver.formats.datahub_blob import FORMAT
from silver.stream.lost_logs import restore_logs


def test_a_source_whose_updates_share_positions_is_known_again(spark: SparkSession, tmp_path: Path) -> None:
    lake = Lakehouse(str(tmp_path))

    def append(table: str, *rows: dict[str, Any]) -> None:
        blank = dict.fromkeys(CHANGES.names) | {"op": "update", "batch": 5000, "table": "item"}
        cells = [tuple((blank | row).values()) for row in rows]
        lake.append(local_frame(spark, cells, CHANGES).coalesce(1), table)

    def update(source: str, change_id: str, sequence: str, kind: str = "row") -> dict[str, Any]:
        return {"source": source, "change_id": change_id, "sequence": sequence, "kind": kind}

    append(
        CHANGES_TABLE,
        update("whole", "1", "011.015"),
        update("whole", "2", "011.015"),
        update("half", "3", "011.015"),
        update("plain", "4", "011.015"),
        update("plain", "5", "011.016"),
        update("plain", "6", "011.015", "duplicate"),
    )
    append(
        PENDING_TABLE,
        update("half", "7", "011.015", "half") | {"half": "after"},
        update("plain", "8", "011.017", "half") | {"half": "after"},
        update("plain", "9", "011.017", "half") | {"half": "before"},
    )
    plans = {name: Mock(format=FORMAT) for name in ("whole", "half", "plain")}
    state = RunState(lake, Mock(), plans)
    notes = restore_logs(spark, state, None)
    assert any("ops/encodings was gone" in note for note in notes)
    assert read_encodings(spark, lake).shared == {"whole", "half"}
