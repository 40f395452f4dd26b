"""The project's wheel, as uv builds it."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def uv_program() -> str:
    """Where uv is; skips the test where there is none."""
    uv = shutil.which("uv") or str(ROOT / ".venv-tools" / "bin" / "uv")
    if not Path(uv).is_file():
        pytest.skip("there is no uv on this machine")
    return uv


def built_wheel(folder: Path, project: Path = ROOT) -> Path:
    """The wheel of the project, or of a copy of it, as it is now, in `folder`."""
    build = [uv_program(), "build", "--wheel", "--out-dir", str(folder)]
    done = subprocess.run(build, cwd=project, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (built,) = folder.glob("*.whl")
    return built
