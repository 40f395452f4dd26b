"""What a run says of a layer that fails."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from framework.config.model import load_config
from framework.errors import place_of
from framework.lakehouse.lakehouse import Lakehouse
from framework.pipeline import run as runs
from framework.pipeline.layer import Layer, LayerReport, Run
from silver.layer import LAYER as SILVER

CONFIG = "pipeline: shop\nlakehouse: ./lake\nsources:\n  a: {format: canal, files: ./in}\n"


def test_an_error_names_the_layer_and_the_progress_ends(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "mainstem.yml").write_text(CONFIG)
    config = load_config(tmp_path / "mainstem.yml", formats=SILVER.options())

    def lands(run: Run) -> LayerReport:
        run.progress.advance("files")
        return LayerReport("bronze")

    def fails(run: Run) -> LayerReport:
        raise KeyError("colour")

    layers = (Layer("bronze", lands, dict), Layer("silver", fails, dict))
    monkeypatch.setattr(runs, "layers_through", lambda _: layers)
    no_session: Any = None
    work = Run(no_session, Lakehouse(config.root), config, "r1")
    with pytest.raises(KeyError) as raised:
        runs.run_layers(work, "quality", 0.0)
    assert place_of(raised.value) == "layer silver"
    assert [(layer.name, layer.is_ended) for layer in work.progress.snapshot()] == [
        ("bronze", True),
        ("silver", True),
    ]
