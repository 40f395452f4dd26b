from __future__ import annotations

import os
import signal
import threading
from datetime import timedelta

import pytest

from framework.cli import main
from framework.cli.parser import read_options
from framework.pipeline.continuous import repeat, until_asked_to_end


def test_rounds_go_on_until_they_are_asked_to_end_and_the_last_one_gives_the_code() -> None:
    codes = iter([0, 1, 3])
    ended = threading.Event()

    def work() -> int:
        code = next(codes)
        if code == 3:
            ended.set()
        return code

    assert repeat(work, timedelta(milliseconds=1), ended) == 3


def test_what_a_round_raises_ends_the_rounds() -> None:
    def work() -> int:
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        repeat(work, timedelta(seconds=1), threading.Event())


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_asks_for_the_end_once_and_handlers_are_as_before(number: int) -> None:
    before = signal.getsignal(number)
    with until_asked_to_end() as ended:
        os.kill(os.getpid(), number)
        assert ended.wait(5)
        assert signal.getsignal(number) is before  # a second signal ends at once
    assert signal.getsignal(number) is before


@pytest.mark.parametrize(("text", "seconds"), [("30s", 30), ("5m", 300), ("1 h", 3600)])
def test_interval(text: str, seconds: int) -> None:
    options = read_options(["run", "--continuous", text])
    assert not isinstance(options, int)
    assert options.continuous == timedelta(seconds=seconds)


@pytest.mark.parametrize("text", ["30", "0s", "soon", "-5s"])
def test_no_interval(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", f"--continuous={text}"]) == 2
    assert "30s, 5m or 1h" in capsys.readouterr().err
