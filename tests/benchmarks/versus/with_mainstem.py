"""Mainstem in a process that stays: a round for each line of the standard input, in one Spark session."""

from __future__ import annotations

import sys
from pathlib import Path

import mainstem
from framework.spark.session import local_settings, start_local

CONFIG = """\
pipeline: versus
lakehouse: ./lakehouse
sources:
  feed: {format: datahub_blob, files: ./landing}
tables:
  - match: shop.item
    columns:
      amount: {type: "decimal(18,4)"}
      at: {type: timestamp_ntz}
"""


def main(folder: Path) -> None:
    start_local(local_settings("versus"))
    for _ in sys.stdin:
        mainstem.run(folder / "mainstem.yml").require_complete()
        print("round done", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
