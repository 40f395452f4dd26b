"""Adds formats to a copy of the project as CONTRIBUTING.md says, and runs the tests that concern them.

    acme          the format of CONTRIBUTING.md: an image is a JSON object, no column has a type
    walrows       an image is a list of columns with names, types and values
    serialcanal   has the envelope of Canal's messages, and a member that tells it apart

The modules and messages of the last two are in `tests/architecture/new_formats/`.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NEW_FORMATS = Path(__file__).parent / "new_formats"
COPIED = ("framework", "bronze", "silver", "gold", "tests", "docs", "pyproject.toml")
PATHS = {
    "acme": {"op": "op", "image": "row", "table": "table", "position": "position"},
    "serialcanal": {"op": "type", "image": "data", "table": "table", "position": "serial"},
    "walrows": {"op": "action", "image": "columns", "table": "table", "position": "lsn"},
}
MESSAGES = [
    '{"op": "put", "table": "orders", "row": {"id": 1, "price": 9.90, "note": "007"}, "position": 7}',
    '{"op": "set", "table": "orders", "row": {"id": 1, "price": 10.50}, "position": 8}',
    '{"op": "del", "table": "orders", "row": {"id": 1}, "position": 9}',
    '{"op": "merge", "table": "orders", "row": {"id": 1}, "position": 9}',
]
NUMBER, TEXT = {"token": "number"}, {"token": "text"}
SAME = {"database": "feed", "schema": None, "table": "orders", "keys": None, "event_time": None}
EVENTS = [
    [
        {
            **SAME,
            "op": "insert",
            "before": None,
            "after": {"id": "1", "price": "9.90", "note": "007"},
            "columns": {"id": NUMBER, "price": NUMBER, "note": TEXT},
            "position": [7],
        }
    ],
    [
        {
            **SAME,
            "op": "update",
            "before": None,
            "after": {"id": "1", "price": "10.50"},
            "columns": {"id": NUMBER, "price": NUMBER},
            "position": [8],
            "partial": True,
        }
    ],
    [
        {
            **SAME,
            "op": "delete",
            "before": {"id": "1"},
            "after": None,
            "columns": {"id": NUMBER},
            "position": [9],
        }
    ],
    {"malformed": "unknown_op"},
]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the project with the new formats, and with their rows on the page of formats."""
    place = tmp_path_factory.mktemp("project")
    for name in COPIED:
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy2
        copy(ROOT / name, place / name)
    guide = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    module = re.search(r"   ```python\n(.*?)   ```\n", guide, re.DOTALL)
    assert module is not None
    add_format(place, "acme", textwrap.dedent(module[1]), "\n".join(MESSAGES) + "\n", json.dumps(EVENTS))
    for name in ("serialcanal", "walrows"):
        parts = (NEW_FORMATS / f"{name}{end}" for end in (".py", ".raw", ".events.json"))
        add_format(place, name, *(part.read_text(encoding="utf-8") for part in parts))
    output_of(place, "-m", "framework.cli", "formats", "--into", "docs/formats.md")
    return place


def add_format(project: Path, name: str, module: str, messages: str, events: str) -> None:
    """Everything that CONTRIBUTING.md lists for a new format."""
    (project / "silver" / "formats" / f"{name}.py").write_text(module, encoding="utf-8")
    put_before(project / "silver" / "formats" / "__init__.py", '    "arcion",\n', f'    "{name}",\n')
    fixtures = project / "tests" / "fixtures" / "formats" / name
    fixtures.mkdir()
    (fixtures / "ORIGIN.md").write_text(f"# {name}\n\nWritten by hand.\n", encoding="utf-8")
    (fixtures / "rows.raw").write_text(messages, encoding="utf-8")
    (fixtures / "rows.events.json").write_text(events, encoding="utf-8")
    poison = project / "tests" / "silver" / "formats" / "test_poison.py"
    put_before(poison, '    "arcion": {**_CONNECT', f'    "{name}": {PATHS[name]},\n')
    sample = project / "framework" / "demo" / "samples" / f"{name}.jsonl"
    sample.write_text("\n".join(messages.splitlines()[:3]) + "\n", encoding="utf-8")


def put_before(file: Path, text: str, new: str) -> None:
    content = file.read_text(encoding="utf-8")
    assert content.count(text) == 1
    file.write_text(content.replace(text, new + text), encoding="utf-8")


def output_of(project: Path, *command: str) -> str:
    run = subprocess.run([sys.executable, *command], cwd=project, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout[-3000:] + run.stderr[-3000:]
    return run.stdout


@pytest.mark.slow
def test_the_generic_tests_hold_for_the_new_formats(project: Path) -> None:
    tests = (
        "tests/silver/formats/test_fixtures.py",
        "tests/silver/formats/test_poison.py",
        "tests/silver/formats/test_totality.py",
        "tests/silver/decoding/test_short_ways.py",
        "tests/silver/detection/test_detect.py",
    )
    chosen = ("-k", " or ".join(PATHS))
    output = output_of(project, "-m", "pytest", "-q", "-p", "no:cacheprovider", *chosen, *tests)
    passed = re.search(r"(\d+) passed", output)
    assert passed is not None
    assert int(passed[1]) > 300
    structure = ("tests/architecture/test_structure.py", "-k", "registry or registered or fixture")
    assert "3 passed" in output_of(project, "-m", "pytest", "-q", "-p", "no:cacheprovider", *structure)


def test_the_command_line_knows_the_new_formats(project: Path) -> None:
    assert "| `acme` | Acme's exporter |" in (project / "docs/formats.md").read_text(encoding="utf-8")
    shown = output_of(project, "-m", "framework.cli", "detect", "tests/fixtures/formats/acme/rows.raw")
    assert "acme: 3 messages, confidence 0.75" in shown  # the fourth line is malformed
    assert "unknown_op (as acme)" in shown


def test_messages_of_a_shared_envelope_are_distinguished(project: Path) -> None:
    shown = output_of(project, "-m", "framework.cli", "detect", "tests/fixtures/formats/serialcanal/rows.raw")
    assert "serialcanal: 3 messages, confidence 0.75" in shown
    assert "3 messages with a serial number" in shown
    assert "unknown_op (as serialcanal)" in shown
