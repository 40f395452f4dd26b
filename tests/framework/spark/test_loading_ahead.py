"""What a command needs next is loaded while the JVM starts, and fails where it would fail without that."""

from __future__ import annotations

import subprocess
import sys
import threading
from importlib.util import find_spec
from pathlib import Path

import pytest

from framework.cli.commands import demo
from framework.pipeline.layer import modules_through
from framework.spark.loading_ahead import loading_ahead


def test_the_modules_are_complete_when_the_context_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "ahead_one.py").write_text("import ahead_two\n\nNAME = ahead_two.NAME\n")
    (tmp_path / "ahead_two.py").write_text("import time\n\ntime.sleep(0.2)\nNAME = 'two'\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with loading_ahead(["ahead_one"]):
        assert "imports" in [thread.name for thread in threading.enumerate()]
    assert "imports" not in [thread.name for thread in threading.enumerate()]
    assert sys.modules.pop("ahead_one").NAME == sys.modules.pop("ahead_two").NAME == "two"


def test_a_module_that_fails_does_so_where_it_is_needed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "ahead_broken.py").write_text("raise SystemExit('broken')\n")
    (tmp_path / "ahead_whole.py").write_text("")
    monkeypatch.syspath_prepend(str(tmp_path))
    with loading_ahead(["ahead_missing", "ahead_broken", "ahead_whole"]):
        pass
    assert sys.modules.pop("ahead_whole", None) is not None
    with pytest.raises(ModuleNotFoundError):
        __import__("ahead_missing")
    with pytest.raises(SystemExit, match="broken"):
        __import__("ahead_broken")


def test_the_error_of_the_context_goes_on() -> None:
    with pytest.raises(ZeroDivisionError), loading_ahead(["json"]):
        _ = 1 // 0


def test_what_the_demo_loads_ahead_for_its_last_run_exists() -> None:
    """A name that does not exist would be passed over, and the module loaded late."""
    assert all(find_spec(name) is not None for name in demo.LATER)


def test_a_run_has_loaded_all_that_its_layers_import() -> None:
    """In a process of its own: here other tests have loaded everything."""
    assert modules_through("bronze") == ["pandas", "pyarrow.parquet", "bronze.job"]
    script = """
import sys
from framework.pipeline.layer import modules_through
from framework.spark.loading_ahead import loading_ahead
from framework.spark.session import start_local
assert "pandas" not in sys.modules
with loading_ahead(modules_through("gold")):
    pass
before = set(sys.modules)
import bronze.job, silver.job, gold.job
assert set(sys.modules) == before, set(sys.modules) - before
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
