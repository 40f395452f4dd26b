"""What `init` writes for editors."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest
import yaml

from framework.cli import main


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_configuration_begins_with_the_line_of_its_schema_which_it_fits(folder: Path) -> None:
    assert main(["init"]) == 0
    first, *rest = Path("mainstem.yml").read_text().splitlines()
    place = first.removeprefix("# yaml-language-server: $schema=")
    schema = json.loads(Path(place).read_text())
    jsonschema.Draft202012Validator(schema).validate(yaml.safe_load("\n".join(rest)))
    assert schema["properties"]["sources"]


def test_an_older_schema_is_replaced_and_another_file_stays(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = Path("mainstem.schema.json")
    file.write_text('{"$id": "urn:mainstem:configuration", "title": "of an older release"}')
    assert main(["init", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["schema"] == "mainstem.schema.json"
    assert "older release" not in file.read_text()
    for other in ("[]", "{", '{"$id": "urn:other"}'):
        file.write_text(other)
        assert main(["init", "-c", "other.yml"]) == 0
        assert "is another file: it stays" in capsys.readouterr().out
        assert file.read_text() == other
        Path("other.yml").unlink()


def test_a_link_at_the_place_of_the_schema_is_not_followed(folder: Path) -> None:
    Path("mainstem.schema.json").symlink_to("elsewhere.json")
    assert main(["init"]) == 0
    assert not Path("elsewhere.json").exists()
