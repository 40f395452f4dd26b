"""Measures Mainstem against what else a user could take: `make benchmark-versus`.

`python -m tests.benchmarks.versus --scale 0.01 --rounds 1` only tries it.
"""

from __future__ import annotations

import argparse
import re
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

from tests.benchmarks.versus import check
from tests.benchmarks.versus.feed import Feed, hand_out
from tests.benchmarks.versus.processes import Cost, Staying, ToolFailed, reap_orphans, run_whole
from tests.benchmarks.versus.results import Measured, page
from tests.benchmarks.versus.tools import Tool, all_tools

_BETWEEN_MARKERS = re.compile(r"(<!-- versus[^\n]*-->\n).*?(<!-- /versus -->)", re.DOTALL)


def main() -> None:
    parser = argparse.ArgumentParser(prog="make benchmark-versus")
    parser.add_argument("--scale", type=float, default=1.0, help="of 200,000 rows and 20,000 updates")
    parser.add_argument("--rounds", type=int, default=3, help="of each measurement")
    parser.add_argument("--only", nargs="*", metavar="TOOL", help="the tools whose names begin like this")
    parser.add_argument("--uv", default="uv", help="the command that makes the environments")
    parser.add_argument("--into", metavar="FILE", help="write the table between the markers in a file")
    options = parser.parse_args()
    reap_orphans()
    chosen = [tool for tool in all_tools() if not options.only or tool.name.startswith(tuple(options.only))]
    with tempfile.TemporaryDirectory(prefix="mainstem-versus-") as name:
        folder = Path(name)
        tools, refused = _that_run(chosen, folder / "trial", options.uv)
        rows, updates = max(int(200_000 * options.scale), 200), max(int(20_000 * options.scale), 20)
        results, messages = measure(tools, folder, rows, updates, options.rounds)
    text = page(results, refused, rows, messages, options.rounds)
    print(text)
    if options.into:
        target = Path(options.into)
        filled = _BETWEEN_MARKERS.sub(lambda found: f"{found[1]}{text}\n{found[2]}", target.read_text())
        target.write_text(filled)


def _that_run(tools: Sequence[Tool], folder: Path, uv: str) -> tuple[list[Tool], dict[str, str]]:
    """The tools that get a small feed right on this machine, and why the others do not.

    Each is started once: what it downloads and writes at its first start is not measured.
    """
    feed = Feed(folder / "feed")
    file = feed.load(200)
    running, refused = list[Tool](), dict[str, str]()
    for number, tool in enumerate(tools):
        place = folder / str(number)
        try:
            tool.install(uv)
            _prepare(tool, place)
            hand_out(file, [place / "landing"])
            run_whole(tool.whole(place), place, tool.environment(place))
        except ToolFailed as failure:
            refused[tool.name] = str(failure)
            continue
        found = check.compare(tool.read(place), feed.rows)
        assert not found.wrong, (tool.name, found)
        running.append(tool)
    shutil.rmtree(folder)
    return running, refused


def _prepare(tool: Tool, place: Path) -> None:
    (place / "landing").mkdir(parents=True)
    tool.set_up(place)


def measure(
    tools: Sequence[Tool], folder: Path, rows: int, updates: int, rounds: int
) -> tuple[list[Measured], int]:
    """All tools with the same files, in turn; and how many messages a batch of changes has."""
    feed = Feed(folder / "feed")
    load = feed.load(rows)
    first, messages = feed.batch(updates)
    results = {tool.name: Measured(tool.name) for tool in tools}
    places: dict[str, Path] = {}
    for number in range(rounds):
        for tool in _in_turn(tools, number):
            place = folder / f"{number}-{tools.index(tool)}"
            _prepare(tool, place)
            for file, costs in ((load, results[tool.name].load), (first, results[tool.name].batch)):
                hand_out(file, [place / "landing"])
                _note(tool, costs, run_whole(tool.whole(place), place, tool.environment(place)))
            if tool.name in places:
                shutil.rmtree(places[tool.name])
            places[tool.name] = place
    with ExitStack() as stack:
        staying = {
            tool.name: stack.enter_context(
                Staying(
                    tool.staying(places[tool.name]), places[tool.name], tool.environment(places[tool.name])
                )
            )
            for tool in tools
        }
        landings = [place / "landing" for place in places.values()]
        for number in range(rounds + 1):
            hand_out(feed.batch(updates)[0], landings)
            for tool in _in_turn(tools, number):
                cost = staying[tool.name].round()
                if number:  # the first one warms up
                    _note(tool, results[tool.name].steady, cost)
        for tool in tools:
            results[tool.name].found = check.compare(tool.read(places[tool.name]), feed.rows)
        hand_out(feed.repeated(first), landings)
        for tool in tools:
            staying[tool.name].round()
            results[tool.name].after_repeats = check.compare(tool.read(places[tool.name]), feed.rows)
    return list(results.values()), messages


def _in_turn(tools: Sequence[Tool], number: int) -> Iterator[Tool]:
    """All tools, beginning with another one in each round."""
    start = number % max(len(tools), 1)
    yield from (*tools[start:], *tools[:start])


def _note(tool: Tool, costs: list[Cost], cost: Cost) -> None:
    costs.append(cost)
    print(f"{tool.name}: {cost.seconds:.1f} s, CPU {cost.cpu:.1f} s", flush=True)


if __name__ == "__main__":
    main()
