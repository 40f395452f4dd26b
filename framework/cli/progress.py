"""Shows the progress of a run on standard error: live on a terminal, else a line every ten seconds."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from framework.cli.progress_lines import ended_line, layer_line, share
from framework.cli.terminal import say
from framework.pipeline.progress import LayerProgress, Progress
from framework.text.formatting import one_line, span

if TYPE_CHECKING:
    from rich.table import Table

EVERY = 10.0
"""The seconds between two lines where there is no terminal; a run that is shorter prints none."""
_TICK = 0.5


@contextmanager
def show_progress(*, is_shown: bool) -> Iterator[Progress]:
    """The progress to which a run reports; it is shown meanwhile, unless `is_shown` is false."""
    progress = Progress()
    if not is_shown:
        yield progress
    elif sys.stderr.isatty():
        with _live(progress):
            yield progress
    else:
        with _repeated(ProgressLines(progress).print_new, EVERY):
            yield progress


@contextmanager
def _repeated(work: Callable[[], None], every: float) -> Iterator[None]:
    """Call a function every so many seconds, in a thread, until the context ends."""
    ended = threading.Event()

    def repeat() -> None:
        while not ended.wait(every):
            work()

    thread = threading.Thread(target=repeat, name="progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(timeout=2 * _TICK)


class ProgressLines:
    """The lines of a run without a terminal: what is new since the last lines, and where the run is."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._ended_layers = 0
        self._ended_tables: dict[int, int] = {}

    def print_new(self) -> None:
        """Print the lines that `lines` returns."""
        say((f"progress: {line}" for line in self.lines()), is_error=True)

    def lines(self) -> list[str]:
        """A line for each layer that has ended since the last call, and for the one at work."""
        layers = self._progress.snapshot()
        if not layers:
            return [f"starting Spark ({span(self._progress.seconds)} so far)"]
        found = []
        for at, layer in enumerate(layers):
            before = self._ended_tables.get(at, 0)
            if layer.ended[before:]:
                found.append(f"{layer.name} {ended_line(layer.ended[before:])}")
                self._ended_tables[at] = len(layer.ended)
            if not layer.is_ended or at >= self._ended_layers:
                found.append(layer_line(layer))
        self._ended_layers = sum(layer.is_ended for layer in layers)
        return found


@contextmanager
def _live(progress: Progress) -> Iterator[None]:
    from rich.console import Console
    from rich.live import Live

    with (
        Live(
            live_table(progress.snapshot(), progress.seconds),
            console=Console(stderr=True, highlight=False),
            auto_refresh=False,
            transient=True,
        ) as live,
        _repeated(
            lambda: live.update(live_table(progress.snapshot(), progress.seconds), refresh=True), _TICK
        ),
    ):
        yield


def live_table(layers: Sequence[LayerProgress], seconds: float) -> Table:
    """The picture of a terminal: a bar and a line for each layer."""
    from rich.progress_bar import ProgressBar
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, 1))
    table.add_column(width=20, vertical="top")
    table.add_column(overflow="fold")
    if not layers:
        table.add_row(ProgressBar(total=None, width=20), Text(f"starting Spark ({span(seconds)} so far)"))
    for layer in layers:
        done = share(layer)
        bar = ProgressBar(total=None if done is None else 1.0, completed=done or 0.0, width=20)
        table.add_row(bar, Text(one_line(layer_line(layer)), style="green" if layer.is_ended else ""))
    if layers and layers[-1].ended and not layers[-1].is_ended:
        table.add_row("", Text(ended_line(layers[-1].ended[::-1]), style="dim"))
    return table
