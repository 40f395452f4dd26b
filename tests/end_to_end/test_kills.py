"""Runs of one pipeline are killed at any moment while its feed grows: the tables equal the expected rows.

    MAINSTEM_CHAOS=20 MAINSTEM_SEED=7 python -m pytest tests/end_to_end/test_kills.py -s

Unlike `test_crashes.py` nothing is undone between the kills: each run meets what the ones before it have left
behind.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from random import Random
from typing import Any

import pytest
from deltalake import DeltaTable

from framework.cli import main
from tests.end_to_end.test_blob_to_replica import item, message
from tests.end_to_end.test_crashes import CHAOS, SEED, Place
from tests.processes import ended, kill_tree

CONFIG = """pipeline: crashes
lakehouse: ./lakehouse
sources:
  shop: {format: datahub_blob, files: ./landing/shop, pairing_timeout: 10 minutes}
tables:
  - {match: shop.item, history: true}
"""


class Growing:
    """A table that changes at random, and its feed: halves of updates in different files, and duplicates."""

    def __init__(self, seed: str) -> None:
        self.draw, self.rows, self.sequence = Random(seed), dict[int, dict[str, Any]](), 0
        self.late: list[dict[str, Any]] = []
        self.messages: list[dict[str, Any]] = []

    def part(self, changes: int) -> list[dict[str, Any]]:
        """The messages of some changes, in no order, with some of the parts before."""
        new = [message for _ in range(changes) for message in self._change()]
        self.draw.shuffle(new)
        cut = self.draw.randint(0, 2)
        found, self.late = [*self.late, *new[cut:]], new[:cut]
        repeated = self.draw.sample(self.messages, min(3, len(self.messages)))
        self.messages += found
        return [*found, *repeated]

    def rest(self) -> list[dict[str, Any]]:
        """The messages that have not been delivered yet."""
        return self.late

    def _change(self) -> list[dict[str, Any]]:
        self.sequence += 1
        key = self.draw.randint(1, 30)
        old, new = self.rows.get(key), item(key, self.draw.choice(("pen", "ink", "map")), self.sequence + 0.5)
        if old is None:
            self.rows[key] = new
            return [message("INSERT", self.sequence, after=new)]
        if self.draw.random() < 0.2:
            del self.rows[key]
            return [message("DELETE", self.sequence, before=old)]
        self.rows[key] = new
        return [
            message("UPDATE_BEFOR", self.sequence, before=old),
            message("UPDATE_AFTER", self.sequence, after=new),
        ]


def land(place: Place, number: int, messages: list[dict[str, Any]]) -> None:
    folder = place.folder / "landing" / "shop"
    folder.mkdir(parents=True, exist_ok=True)
    hidden = folder / f".part-{number}"
    hidden.write_text("\n".join(map(json.dumps, messages)), encoding="utf-8")
    hidden.rename(folder / f"part-{number}.jsonl")


@pytest.mark.skipif(not CHAOS, reason="kills at random moments are for make chaos")
def test_runs_that_are_killed_again_and_again_lead_to_the_right_tables(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    place, table, draw = Place(tmp_path), Growing(SEED), Random(f"kills {SEED}")
    place.config.write_text(CONFIG, encoding="utf-8")
    land(place, 0, table.part(60))
    started = time.monotonic()
    assert ended(place.start(None)) == 0, (place.folder / "run.log").read_text()
    whole = time.monotonic() - started
    killed = 0
    for number in range(1, CHAOS + 1):
        land(place, number, table.part(40))
        process = place.start(None)
        time.sleep(whole * draw.uniform(0.35, 1.1))
        killed += process.poll() is None
        kill_tree(process)
    land(place, CHAOS + 1, table.rest())
    assert ended(place.start(None)) == 0, (place.folder / "run.log").read_text()
    print(f"MAINSTEM_SEED={SEED}: {killed} of {CHAOS} runs killed in their work, one takes {whole:.0f} s")
    found = DeltaTable(str(place.folder / "lakehouse/gold/shop/item")).to_pyarrow_table().to_pylist()
    assert {row["id"]: {name: row[name] for name in ("id", "name", "price")} for row in found} == table.rows
    assert len(found) == len(table.rows)
    capfd.readouterr()
    code = main(["status", "--verify", "--json", "-c", str(place.config)])
    status = json.loads(capfd.readouterr().out)
    assert (code, [check for check in status["checks"] if not check["ok"]]) == (0, [])
    assert status["pending_halves"] == 0
