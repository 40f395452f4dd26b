"""The note of a layer's tables: what it says comes back as it was,
and a damaged folder shows what is gone.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

from framework.lakehouse.inventory import Inventory, read_inventory, those_there, write_inventory
from framework.lakehouse.lakehouse import Lakehouse

NO_SESSION: Any = cast(Any, None)
"""On a local file system nothing here needs Spark."""


def test_what_was_noted_tells_a_lost_table_from_one_that_never_was(tmp_path: Path) -> None:
    lake = Lakehouse(str(tmp_path))
    assert read_inventory(NO_SESSION, lake, "silver") is None
    for name in ("silver/changes", "ops/epochs"):
        log = tmp_path / name / "_delta_log"
        log.mkdir(parents=True)
        (log / f"{0:020d}.json").touch()
    names = ("silver/changes", "ops/epochs", "ops/statements")
    noted = Inventory(those_there(NO_SESSION, lake, names), {"epochs": [{"source": "größer", "epoch": 2}]})
    write_inventory(NO_SESSION, lake, "silver", noted)
    assert read_inventory(NO_SESSION, lake, "silver") == noted
    assert noted.tables == ("ops/epochs", "silver/changes")

    (tmp_path / "ops/epochs/_delta_log" / f"{0:020d}.json").unlink()

    assert set(noted.tables) - set(those_there(NO_SESSION, lake, names)) == {"ops/epochs"}
