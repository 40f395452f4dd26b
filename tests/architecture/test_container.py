"""The steps of the Dockerfile, as far as they can be checked without Docker."""

from __future__ import annotations

import fnmatch
import json
import re
import shlex
import subprocess
import tomllib
from pathlib import Path

import pytest

from container import collect_jars
from framework.spark.jars import known_jars, packages

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
OF_THE_IMAGE = {"apt-get", "useradd", "mkdir", "chown", "rm", "cd", "python", "uv"}
"""Programs of the base image, and uv, which an earlier step installs."""


def instructions() -> list[tuple[str, str]]:
    """The instructions of the Dockerfile with their arguments; a continued line is one."""
    text = re.sub(r"\\\n\s*", " ", (ROOT / "Dockerfile").read_text(encoding="utf-8"))
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return [(line.partition(" ")[0], line.partition(" ")[2]) for line in lines]


def arguments(instruction: str) -> list[str]:
    return [text for name, text in instructions() if name == instruction]


def is_sent(path: str) -> bool:
    """Whether .dockerignore leaves a path in the context of the build."""
    lines = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    rules = [line for line in lines if line and not line.startswith("#")]
    sent = True
    for rule in rules:
        pattern = rule.removeprefix("!")
        if fnmatch.fnmatchcase(path, pattern) or path.startswith(f"{pattern}/"):
            sent = rule.startswith("!")
    return sent


def test_every_file_that_is_copied_exists_and_is_sent_to_the_build() -> None:
    copied = [shlex.split(text)[:-1] for text in arguments("COPY") if not text.startswith("--from")]
    paths = [path for sources in copied for path in sources]
    assert paths
    assert [path for path in paths if not (ROOT / path).exists()] == []
    assert [path for path in paths if not is_sent(path)] == []
    assert not is_sent(".git")
    assert not is_sent("tests/conftest.py")


def test_the_build_has_every_package_and_file_of_the_wheel() -> None:
    copied = {path for text in arguments("COPY") for path in shlex.split(text)}
    wheel = PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]
    assert {*wheel["packages"], "hatch_build.py", PROJECT["project"]["readme"]} <= copied


def test_every_step_runs_programs_that_the_image_has() -> None:
    steps = [step for text in arguments("RUN") for step in re.split(r"\s*&&\s*", text)]
    programs = {shlex.split(step)[0] for step in steps}
    assert programs - OF_THE_IMAGE == {"/opt/mainstem/venv/bin/python"}
    (place,) = re.findall(r"UV_PROJECT_ENVIRONMENT=(\S+)", " ".join(arguments("ENV")))
    assert place == "/opt/mainstem/venv"


def test_the_shell_understands_every_step() -> None:
    for step in arguments("RUN"):
        assert subprocess.run(["sh", "-n", "-c", step], check=False).returncode == 0, step


def test_the_extras_and_the_python_exist() -> None:
    (sync,) = (text for text in arguments("RUN") if text.startswith("uv sync"))
    extras = re.findall(r"--extra (\S+)", sync)
    assert set(extras) <= PROJECT["project"]["optional-dependencies"].keys()
    assert "local" in extras
    (version,) = set(re.findall(r"python:(\d\.\d+)", " ".join(arguments("FROM"))))
    assert version in {"3.11", "3.12"}


def test_the_process_is_no_root_and_is_the_command() -> None:
    last = [name for name, _ in instructions()]
    assert last.index("USER") > max(at for at, name in enumerate(last) if name == "RUN")
    assert arguments("USER") == ["10001"]
    assert json.loads(arguments("ENTRYPOINT")[0]) == ["mainstem"]
    assert "mainstem" in PROJECT["project"]["scripts"]


def test_artifacts_are_copied_and_found_again_without_ivy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MAINSTEM_CACHE", str(tmp_path / "cache"))
    (tmp_path / "ivy").mkdir()
    names = {False: ["delta.jar"], True: ["delta.jar", "kafka.jar"]}
    for name in names[True]:
        (tmp_path / "ivy" / name).write_bytes(name.encode())
    monkeypatch.setattr(
        collect_jars,
        "verified_jars",
        lambda *, kafka: tuple(str(tmp_path / "ivy" / name) for name in names[kafka]),
    )
    collect_jars.collect(tmp_path / "jars")
    for name in names[True]:
        (tmp_path / "ivy" / name).unlink()
    for kafka in (False, True):
        expected = tuple(str(tmp_path / "jars" / name) for name in names[kafka])
        assert known_jars(packages(kafka=kafka)) == expected
    assert (tmp_path / "jars/kafka.jar").read_bytes() == b"kafka.jar"
    # the user of a container is another one than that of the build
    assert (tmp_path / "cache").stat().st_mode & 0o005 == 0o005
    assert (tmp_path / "cache/jars.json").stat().st_mode & 0o004
