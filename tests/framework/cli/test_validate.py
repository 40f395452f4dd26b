from __future__ import annotations

from pathlib import Path

import pytest

from framework.cli import main


def test_validate_tells_a_landing_folder_that_is_not_there(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "mainstem.yml"
    file.write_text(
        "pipeline: shop\nlakehouse: ./lake\nsources:\n  feed: {format: datahub_blob, files: ./landing}\n"
    )
    assert main(["validate", "-c", str(file)]) == 2
    assert capsys.readouterr().err == (
        f"error: LANDING_FOLDER_MISSING\n  found: no folder {tmp_path}/landing\n"
        f"  where: {file}: sources.feed.files\n  do:    create the folder, or correct `files:`\n"
        "  more:  mainstem explain LANDING_FOLDER_MISSING\n"
    )
    assert main(["validate", "-c", str(file), "--schema"]) == 0
