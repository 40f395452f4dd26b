"""Artifacts are verified before a JVM can run them; a script stands for `spark-submit`, which finds them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from framework.errors import MainstemError
from framework.spark import resolution
from framework.spark.jars import known_jars, packages, remember_jars
from framework.spark.resolution import verified_jars

DELTA = f"io.delta_delta-spark_4.1_2.13-{version('delta-spark')}.jar"
OPENING = """
from framework.errors import MainstemError
from framework.spark.session import open_session
class Pipeline:
    pipeline = "shop"
try:
    open_session(Pipeline())
except MainstemError as error:
    print(error.condition)
"""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A Spark whose `spark-submit` runs the shell script that a test writes."""
    home = tmp_path / "spark"
    (home / "bin").mkdir(parents=True)
    monkeypatch.setenv("SPARK_HOME", str(home))
    monkeypatch.setenv("MAINSTEM_CACHE", str(tmp_path / "cache"))
    return home


def submit(home: Path, script: str) -> None:
    program = home / "bin" / "spark-submit"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)


def jar(folder: Path, name: str, content: bytes = b"x") -> str:
    (folder / name).write_bytes(content)
    return str(folder / name)


def test_artifacts_that_were_found_are_known_afterwards(home: Path, tmp_path: Path) -> None:
    first, second = jar(tmp_path, "a.jar"), jar(tmp_path, "b c.jar")
    submit(
        home, f"echo ':: resolving'; echo '(spark.jars,file://{first},file://{second.replace(' ', '%20')})'"
    )
    assert verified_jars(kafka=False) == (first, second)
    submit(home, "exit 1")
    assert verified_jars(kafka=False) == (first, second)


def test_an_artifact_that_is_not_the_published_one_is_not_remembered(home: Path, tmp_path: Path) -> None:
    other = jar(tmp_path, DELTA, b"not Delta")
    submit(home, f"echo '(spark.jars,file://{other})'")
    for _ in range(2):
        with pytest.raises(MainstemError) as raised:
            verified_jars(kafka=False)
        assert (raised.value.condition, raised.value.where) == ("JARS_CHANGED", other)
        assert known_jars(packages(kafka=False)) is None


def test_a_known_artifact_that_was_replaced_is_refused_before_java_starts(home: Path, tmp_path: Path) -> None:
    java = tmp_path / "java" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\ntouch {tmp_path / 'started'}\n")
    java.chmod(0o755)
    remember_jars(packages(kafka=False), [jar(tmp_path, DELTA, b"not Delta")])
    environment = {**os.environ, "JAVA_HOME": str(java.parents[1])}
    environment.pop("SPARK_REMOTE", None)
    environment.pop("SPARK_HOME")
    ran = subprocess.run(
        [sys.executable, "-c", OPENING],
        cwd=Path(__file__).parents[3],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert ran.stdout == "JARS_CHANGED\n"
    assert not (tmp_path / "started").exists()


def test_a_second_way_is_tried_where_the_first_finds_nothing(home: Path, tmp_path: Path) -> None:
    found = jar(tmp_path, "kafka.jar")
    submit(
        home,
        f'case "$*" in *ivySettings*) echo "(spark.jars,file://{found})";;'
        " *) echo ':: UNRESOLVED DEPENDENCIES'; exit 1;; esac",
    )
    assert verified_jars(kafka=True) == (found,)
    submit(home, "echo 'Server access error'; exit 1")
    with pytest.raises(MainstemError) as raised:
        verified_jars(kafka=False)
    assert raised.value.condition == "JARS_UNAVAILABLE"


def test_the_options_of_the_jvm_hold_for_the_search_too(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They may name a proxy."""
    monkeypatch.setenv("MAINSTEM_JAVA_OPTIONS", "-Dhttps.proxyHost=proxy")
    monkeypatch.setenv("SPARK_REMOTE", "local[2]")
    submit(
        home,
        f'echo "$* remote=$SPARK_REMOTE." > {tmp_path}/asked; echo "(spark.jars,{jar(tmp_path, "a.jar")})"',
    )
    verified_jars(kafka=False)
    asked = (tmp_path / "asked").read_text()
    assert "spark.driver.extraJavaOptions=-Dhttps.proxyHost=proxy" in asked
    assert f"spark.jars.packages={packages(kafka=False)[0]}" in asked
    assert "remote=." in asked


def test_an_artifact_whose_name_looks_like_a_secret_keeps_its_path(home: Path, tmp_path: Path) -> None:
    # Spark hides settings whose key or value fits spark.redaction.regex: by default all that holds "token"
    tokens = jar(tmp_path, "spark-token-provider-kafka.jar")
    program = home / "bin" / "spark-submit"
    program.write_text(
        f"#!{sys.executable}\n"
        "import re, sys\n"
        "given = dict(word.split('=', 1) for word in sys.argv if '=' in word)\n"
        "hidden = given.get('spark.redaction.regex', '(?i)secret|password|token|access[.]?key')\n"
        f"for key, value in (('spark.jars', 'file://{tokens}'), ('spark.my.password', 'x')):\n"
        "    is_hidden = re.search(hidden, key) or re.search(hidden, value)\n"
        "    print(f'({key},{\"*********(redacted)\" if is_hidden else value})')\n"
    )
    program.chmod(0o755)
    assert verified_jars(kafka=True) == (tokens,)
    shown = subprocess.run([program, "spark.jars=x"], capture_output=True, text=True, check=True).stdout
    assert "(spark.jars,*********(redacted))" in shown, "the program hides as Spark does"


def test_secrets_of_the_machine_stay_hidden_in_what_spark_prints() -> None:
    hidden = re.compile(resolution.HIDDEN_KEYS)
    for key in ("spark.my.password", "spark.hadoop.fs.s3a.secret.key", "spark.hadoop.fs.s3a.access.key"):
        assert hidden.search(key)
    for text in ("spark.jars", "file:///home/ann/token/spark-token-provider.jar", "/secret/a.jar"):
        assert not hidden.search(text)
