"""What `run` makes of its options."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from framework.cli import main
from framework.cli.commands import run as command


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ([], ("quality", None)),
        (["--table", "shop.orders"], ("quality", "shop.orders")),
        (["--table", ""], ("quality", None)),  # a parameter of a job that nobody has set
        (["--without-quality"], ("gold", None)),
        (["--without-quality", "--through", "quality"], ("gold", None)),
        (["--without-quality", "--through", "bronze", "--table", ""], ("bronze", None)),
    ],
)
def test_the_layers_and_tables_of_a_run(
    options: list[str], expected: tuple[str, str | None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def apply(_: object, through: str, table: str | None, **__: Any) -> tuple[list[Any], float]:
        asked.append((through, table))
        return [], 0.0

    monkeypatch.setattr(command, "apply_waiting", apply)
    file = tmp_path / "mainstem.yml"
    file.write_text("pipeline: shop\nlakehouse: ./lake\nsources: {feed: {format: canal, files: ./landing}}\n")
    assert main(["run", "-c", str(file), "--json", *options]) == 0
    assert asked == [expected]
