"""Commands that are killed where a plain run never passes, and repeated: the same tables as without.

    MAINSTEM_CHAOS=1 python -m pytest tests/end_to_end/test_rare_crashes.py -s

A source begins its second epoch, a table's messages are decoded again, a dump lands, a row is forgotten, a
setting says how values that waited are written.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from framework.cli import main
from framework.pipeline.fault_injection import VARIABLE
from tests.end_to_end.test_blob_to_replica import item, message
from tests.end_to_end.test_crashes import CHAOS, RARE, ROOT, Place, compare
from tests.end_to_end.test_encodings import Feeds
from tests.end_to_end.test_kills import CONFIG, land
from tests.end_to_end.test_repair import later
from tests.processes import ended

DUMP = "id,name,price\n1,of the dump,0.5\n7,box,7.0\n"
AGAIN, EPOCH = ("rebuild", "shop.item", "--from", "bronze"), ("run", "--through", "gold")
FORGET, DECIDED = ("forget", "shop.item", "id=2"), ("run",)
WAITING = "  late: {format: debezium, files: ./landing/late, layout: kcat}\ntables:"
COMMANDS = {
    "silver.before_again": AGAIN,
    "silver.after_again": AGAIN,
    "silver.between_derived_again": AGAIN,
    "forget.after_note": FORGET,
    "forget.between_layers": FORGET,
    "silver.after_begun": EPOCH,
    "silver.before_resumed": EPOCH,
    "silver.before_taken": DECIDED,
    "bronze.before_seed": ("seed", "shop.item", "--position", "501"),
    "bronze.after_seed": ("seed", "shop.item", "--position", "501"),
}


def do(place: Place, words: tuple[str, ...]) -> int:
    return main([*words, "-c", str(place.config)])


@pytest.fixture(scope="module")
def before(tmp_path_factory: pytest.TempPathFactory) -> Place:
    """A pipeline whose source has stopped because its positions have started again.

    The next epoch is configured.
    """
    place = Place(tmp_path_factory.mktemp("rare") / "before")
    place.folder.mkdir()
    (place.folder.parent / "item.csv").write_text(DUMP, encoding="utf-8")
    place.config.write_text(CONFIG, encoding="utf-8")
    land(
        place,
        1,
        [
            message("INSERT", 500, after=item(1, "pen", 1.0)),
            message("INSERT", 502, after=item(2, "ink", 2.0)),
        ],
    )
    land(
        place,
        2,
        [
            message("UPDATE_BEFOR", 503, before=item(2, "ink", 2.0)),
            message("UPDATE_AFTER", 503, after=item(2, "ink", 2.5)),
        ],
    )
    assert place.run() == 0
    return place


@pytest.fixture(scope="module")
def stopped(before: Place) -> Place:
    place = before.copy("stopped")
    land(
        place,
        3,
        [later("DELETE", 1, 5, before=item(1, "pen", 1.0)), later("INSERT", 2, 5, after=item(3, "cap", 3.0))],
    )
    assert place.run() == 1
    place.config.write_text(CONFIG.replace("pairing_timeout", "epoch: 2, pairing_timeout"), encoding="utf-8")
    return place


@pytest.fixture(scope="module")
def waiting(before: Place) -> Place:
    """A pipeline with a second source, whose values can be read in two ways.

    The configuration says which now.
    """
    place = before.copy("waiting")
    place.config.write_text(CONFIG.replace("tables:", WAITING), encoding="utf-8")
    Feeds(place.folder / "landing").land("late", "1234", "12345678")
    assert place.run() == 1
    text = CONFIG.replace("tables:", WAITING.replace("kcat", "kcat, decimals: text"))
    place.config.write_text(text, encoding="utf-8")
    return place


@pytest.fixture(scope="module")
def places(before: Place, stopped: Place, waiting: Place) -> dict[tuple[str, ...], Place]:
    """Where each command begins."""
    return {words: {EPOCH: stopped, DECIDED: waiting}.get(words, before) for words in COMMANDS.values()}


def of_seed(words: tuple[str, ...], place: Place) -> tuple[str, ...]:
    return (*words, "--from", str(place.folder.parent / "item.csv")) if words[0] == "seed" else words


@pytest.fixture(scope="module")
def expected(
    spark: SparkSession, places: dict[tuple[str, ...], Place]
) -> dict[tuple[str, ...], dict[str, Counter[str]]]:
    """What each command leads to when nothing kills it."""
    found = {}
    for number, words in enumerate(places):
        place = places[words].copy(f"undisturbed {number}")
        assert do(place, of_seed(words, place)) == 0
        found[words] = place.contents(spark)
    return found


@pytest.mark.skipif(not CHAOS, reason="commands that are killed are for make chaos")
@pytest.mark.parametrize("point", sorted(RARE))
def test_a_command_that_died_is_repeated_as_if_it_had_not(
    spark: SparkSession,
    places: dict[tuple[str, ...], Place],
    expected: dict[tuple[str, ...], dict[str, Counter[str]]],
    point: str,
) -> None:
    words = COMMANDS[point]
    place = places[words].copy(f"at {point}")
    environment = {**os.environ, "PYTHONPATH": str(ROOT), VARIABLE: point}
    command = [sys.executable, "-m", "framework.cli", *of_seed(words, place), "-c", str(place.config)]
    log = Path(place.folder / "run.log")
    with log.open("wb") as stream:
        code = ended(subprocess.Popen(command, cwd=ROOT, env=environment, stdout=stream, stderr=stream))
    assert code == -signal.SIGKILL, log.read_text(encoding="utf-8")
    assert do(place, of_seed(words, place)) == 0
    compare(place.contents(spark), expected[words])


def test_each_rare_point_has_a_command_that_passes_it() -> None:
    assert set(COMMANDS) == RARE
