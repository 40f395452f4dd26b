"""Measures all performance goals: `make benchmark`.

`python -m tests.benchmarks --scale 0.001` only tries it.
"""

from __future__ import annotations

import argparse
import re
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from framework.spark.session import local_settings, start_local
from tests.benchmarks import gold_goals, silver_goals, small_goals, whole_goals
from tests.benchmarks.measure import Result, table

_BETWEEN_MARKERS = re.compile(r"(<!-- benchmarks[^\n]*-->\n).*?(<!-- /benchmarks -->)", re.DOTALL)


def main() -> None:
    parser = argparse.ArgumentParser(prog="make benchmark")
    parser.add_argument("--scale", type=float, default=1.0, help="of the sizes that the goals speak of")
    parser.add_argument("--rounds", type=int, default=5, help="behind one that warms up")
    parser.add_argument(
        "--only",
        nargs="+",
        choices=("silver", "gold", "tables", "whole", "idle", "warm", "quality", "memory", "cores", "cold"),
        help="some groups of goals",
    )
    parser.add_argument("--into", metavar="FILE", help="write the table between the markers in a file")
    options = parser.parse_args()
    scale, rounds, results = options.scale, options.rounds, list[Result]()
    spark = start_local(local_settings("benchmark"))
    with tempfile.TemporaryDirectory(prefix="mainstem-benchmark-") as name:
        folder = Path(name)
        groups: dict[str, Callable[[], Iterator[Result]]] = {
            "silver": lambda: silver_goals.goals(spark, folder, max(int(60_000 * scale), 60), rounds),
            "gold": lambda: gold_goals.goals(spark, folder, max(int(2_000_000 * scale), 1_000), rounds),
            "tables": lambda: gold_goals.many_tables(spark, folder, max(int(200 * scale), 2), rounds),
            "whole": lambda: whole_goals.goals(spark, folder, max(int(100_000 * scale), 100), rounds),
            "idle": lambda: whole_goals.idle(spark, folder, max(int(100_000 * scale), 100), rounds),
            "warm": lambda: small_goals.warm(spark, folder, 200, rounds),
            "quality": lambda: whole_goals.quality(spark, folder, max(int(1_000_000 * scale), 1_000)),
            "memory": lambda: whole_goals.memory(folder, max(int(1024**3 * scale), 1024**2)),
            "cores": lambda: whole_goals.cores(folder, max(int(1_000_000 * scale), 1_000), min(rounds, 3)),
            "cold": lambda: small_goals.cold(folder, 250, min(rounds, 3)),
        }
        for group, work in groups.items():
            if options.only is None or group in options.only:
                if group in ("memory", "cores", "cold"):
                    spark.stop()
                for result in work():
                    results.append(result)
                    print(table([result])[-1], flush=True)
    if options.into:
        page = Path(options.into)
        text = "\n".join(table(results))
        page.write_text(_BETWEEN_MARKERS.sub(lambda found: f"{found[1]}{text}\n{found[2]}", page.read_text()))


if __name__ == "__main__":
    main()
