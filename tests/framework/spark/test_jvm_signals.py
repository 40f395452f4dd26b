"""A signal that asks all processes of a run to end leaves it its session."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.end_to_end.test_blob_to_replica import item, message

ROOT = Path(__file__).resolve().parents[3]

CHILD = """
import os, signal, threading
from framework.spark.session import jvm_process, local_settings, start_local

asked = threading.Event()
signal.signal(signal.SIGTERM, lambda *_: asked.set())
session = start_local(local_settings("asked", cores=1))
process = jvm_process(session)
os.killpg(0, signal.SIGTERM)
assert asked.wait(30)
os.kill(process, signal.SIGTERM)
rows = session.range(5).count()
print(process, rows, flush=True)
"""


@pytest.mark.slow
def test_a_signal_to_all_processes_leaves_the_session_until_the_process_ends() -> None:
    done = subprocess.run(
        [sys.executable, "-c", CHILD],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        start_new_session=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    process, rows = done.stdout.split()
    assert rows == "5"
    for _ in range(300):
        if not Path(f"/proc/{process}").exists():
            return
        time.sleep(0.1)
    os.kill(int(process), signal.SIGKILL)
    raise AssertionError("the JVM is there without the process that started it")


@pytest.mark.slow
def test_a_round_is_completed_when_all_processes_are_asked_to_end(tmp_path: Path) -> None:
    landing = tmp_path / "landing"
    landing.mkdir()
    line = json.dumps(message("INSERT", 1, after=item(1, "pen", 1.5)))
    (landing / "a.jsonl").write_text(line, encoding="utf-8")
    (tmp_path / "mainstem.yml").write_text(
        "pipeline: p\nlakehouse: ./lakehouse\nquality: false\n"
        "sources:\n  feed: {format: datahub_blob, files: ./landing}\n"
        "tables: [{match: shop.item, history: true}]\n"
    )
    rounds = subprocess.Popen(
        [sys.executable, "-m", "mainstem", "run", "--continuous", "1h"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    landed = tmp_path / "lakehouse" / "bronze" / "messages" / "_delta_log"
    while not landed.is_dir() and rounds.poll() is None:
        time.sleep(0.05)
    os.killpg(rounds.pid, signal.SIGTERM)
    said = rounds.communicate(timeout=300)[0].decode()
    assert (rounds.returncode, "error:" in said, "done: 1 change" in said) == (0, False, True), said
