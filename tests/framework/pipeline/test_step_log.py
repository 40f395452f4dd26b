import io
import json

import pytest

from framework.pipeline.step_log import log_step, show_steps


def test_steps_are_silent_until_they_are_asked_for(capfd: pytest.CaptureFixture[str]) -> None:
    log_step("bronze", rows=3)

    assert capfd.readouterr() == ("", "")


def test_a_step_is_one_json_line() -> None:
    stream = io.StringIO()
    show_steps(stream)
    show_steps(stream)

    log_step("silver", rows=3, table="数据.x", seconds=0.5, reason=None)

    (line,) = stream.getvalue().splitlines()
    entry = json.loads(line)
    assert entry.pop("time").endswith("Z")
    assert entry == {"step": "silver", "rows": 3, "table": "数据.x", "seconds": 0.5, "reason": None}
