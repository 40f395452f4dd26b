from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[3]
PROGRAM = """
import subprocess, sys
from framework.pipeline.fault_injection import crash_point
child = subprocess.Popen(["sleep", "60"])
print(child.pid, flush=True)
for name in ("a", "b", "a"):
    crash_point(name)
    print("passed", name, flush=True)
child.kill()
"""


def run(crash_at: str | None) -> tuple[int, list[str]]:
    environment = {name: value for name, value in os.environ.items() if name != "MAINSTEM_CRASH_AT"}
    if crash_at:
        environment["MAINSTEM_CRASH_AT"] = crash_at
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        cwd=ROOT,
        env={**environment, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=50,
    )
    return done.returncode, done.stdout.split("\n")[:-1]


def is_alive(pid: str) -> bool:
    """Whether a process goes on; one that was killed may take a moment to be gone."""
    for _ in range(100):
        try:
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return False
        except (FileNotFoundError, ProcessLookupError):
            return False
        time.sleep(0.1)
    return True


def test_nothing_happens_unless_a_point_is_named() -> None:
    code, output = run(None)
    assert (code, output[1:]) == (0, ["passed a", "passed b", "passed a"])


def test_process_and_its_children_die_at_the_named_point() -> None:
    code, output = run("b")
    assert (code, output[1:], is_alive(output[0])) == (-signal.SIGKILL, ["passed a"], False)


def test_visits_are_counted() -> None:
    code, output = run("a:2")
    assert (code, output[1:]) == (-signal.SIGKILL, ["passed a", "passed b"])
