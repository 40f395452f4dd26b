"""An erasure that fails is finished by a later command, unless nothing was erased."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace

import pytest
from pyspark.sql import SparkSession

from framework.contracts.erasure import Erasure
from framework.lakehouse.lakehouse import Lakehouse
from framework.pipeline import erasure
from framework.pipeline.layer import Run


@pytest.mark.parametrize(("failing", "is_unfinished"), [("bronze", False), ("gold", True), ("silver", True)])
def test_an_erasure_that_fails_behind_its_first_layer_is_unfinished(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    failing: str,
    is_unfinished: bool,
) -> None:
    """Also where bronze has no bytes of the row, so that its version stays."""

    def layer(name: str) -> SimpleNamespace:
        def erase(run: Run, of: Erasure) -> Mapping[str, int]:
            if name == failing:
                raise OSError("no space is left")
            return {"rows": 0 if name == "bronze" else 1}

        return SimpleNamespace(name=name, erase=erase)

    layers = [layer(name) for name in ("bronze", "gold", "quality", "silver")]
    monkeypatch.setattr(erasure, "installed_layers", lambda: layers)
    run = Run(spark, Lakehouse(str(tmp_path)), SimpleNamespace(), "run")
    with pytest.raises(OSError, match="no space"):
        erasure.erase(run, Erasure("feed", None, None, "item", (), (), ()))
    assert erasure.is_unfinished(run) is is_unfinished
