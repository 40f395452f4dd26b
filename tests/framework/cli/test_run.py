"""What `run` makes of its options."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from framework.cli import main
from framework.cli.commands import run as command
from framework.pipeline.layer import LayerReport


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


@pytest.mark.parametrize(("is_error", "code"), [(True, 3), (False, 0)])
def test_a_round_with_nothing_new_says_nothing_and_ends_as_its_broken_rules_do(
    is_error: bool,
    code: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    report = LayerReport("quality", failures=(Mock(is_error=is_error),))

    def once(work: Callable[[], int], *_: object) -> int:
        return work()

    monkeypatch.setattr(command, "open_pipeline", lambda *_, **__: nullcontext((Mock(), Mock())))
    monkeypatch.setattr(command, "notes_on_name", lambda *_: ())
    monkeypatch.setattr(command, "run_layers", lambda *_, **__: ([report], 0.0))
    monkeypatch.setattr(command, "repeat", once)
    file = tmp_path / "mainstem.yml"
    file.write_text("pipeline: shop\nlakehouse: ./lake\nsources: {feed: {format: canal, files: ./landing}}\n")
    assert main(["run", "-c", str(file), "--continuous", "1s"]) == code
    assert capsys.readouterr().out == ""
