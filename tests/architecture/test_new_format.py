"""Adds the format of CONTRIBUTING.md to a copy of the project: a module, a fixture folder and a line."""

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
COPIED = ("mainstem", "framework", "bronze", "silver", "gold", "tests", "pyproject.toml", "README.md")
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


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A copy of the project with the format of CONTRIBUTING.md."""
    for name in COPIED:
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy2
        copy(ROOT / name, tmp_path / name)
    module = re.search(
        r"   ```python\n(.*?)   ```\n", (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"), re.DOTALL
    )
    assert module is not None
    (tmp_path / "silver" / "formats" / "acme.py").write_text(textwrap.dedent(module[1]), encoding="utf-8")
    fixtures = tmp_path / "tests" / "fixtures" / "formats" / "acme"
    fixtures.mkdir()
    (fixtures / "ORIGIN.md").write_text("# acme\n\nWritten by hand.\n", encoding="utf-8")
    (fixtures / "rows.raw").write_text("\n".join(MESSAGES) + "\n", encoding="utf-8")
    (fixtures / "rows.events.json").write_text(json.dumps(EVENTS), encoding="utf-8")
    registry = tmp_path / "silver" / "formats" / "__init__.py"
    lines = registry.read_text(encoding="utf-8").split("\n")
    lines.insert(lines.index('    "arcion",'), '    "acme",')
    registry.write_text("\n".join(lines), encoding="utf-8")
    return tmp_path


def output_of(project: Path, *command: str) -> str:
    run = subprocess.run([sys.executable, *command], cwd=project, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout[-3000:] + run.stderr[-3000:]
    return run.stdout


def test_the_generic_tests_hold_for_the_new_format(project: Path) -> None:
    tests = (
        "tests/silver/formats/test_fixtures.py",
        "tests/silver/formats/test_poison.py",
        "tests/silver/formats/test_totality.py",
        "tests/silver/detection/test_detect.py",
    )
    shown = output_of(project, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", "acme", *tests)
    found = re.search(r"(\d+) passed", shown)
    assert found is not None
    assert int(found[1]) > 70
    structure = ("tests/architecture/test_structure.py", "-k", "registry or registered or fixture")
    assert "3 passed" in output_of(project, "-m", "pytest", "-q", "-p", "no:cacheprovider", *structure)


def test_the_command_line_knows_the_new_format(project: Path) -> None:
    output_of(project, "-m", "framework.cli", "formats", "--into", "README.md")
    assert "| `acme` | Acme's exporter |" in (project / "README.md").read_text(encoding="utf-8")
    shown = output_of(project, "-m", "framework.cli", "detect", "tests/fixtures/formats/acme/rows.raw")
    assert "acme: 3 messages, confidence 0.75" in shown  # the fourth line is malformed
    assert "unknown_op (as acme)" in shown
