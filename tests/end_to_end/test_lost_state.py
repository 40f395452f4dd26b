"""Any part of the state may be gone between two runs: the tables come out right, or an error names it and
its advice repairs it.

    MAINSTEM_SEED=7 MAINSTEM_SIZE=large python -m pytest tests/end_to_end/test_lost_state.py -s

The size `large` takes away every single part, every pair and a hundred larger sets that the seed draws;
without one, two sets. MAINSTEM_LOST="changes epochs,messages" takes these sets alone, MAINSTEM_LOST=drawn the
drawn ones, =singles and =pairs those.
"""

from __future__ import annotations

import itertools
import os
import re
import shutil
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from framework.cli import main
from tests.end_to_end.lost_parts import parts_of, put_back, run_on, take_away
from tests.end_to_end.test_blob_to_replica import Shop, item, message
from tests.end_to_end.test_repair import broken, command, later

SEED = os.environ.get("MAINSTEM_SEED") or "20240301"
GIVEN = [tuple(parts.split()) for parts in os.environ.get("MAINSTEM_LOST", "").split(",") if parts]
IS_LARGE = os.environ.get("MAINSTEM_SIZE") == "large" or bool(GIVEN)
DRAWN = 100

PARTS: Mapping[str, Sequence[str]] = {
    **parts_of("feed", "shop/item"),
    "log": ["gold/shop/log"],
    "bad_values": ["ops/bad_values"],
    "repairs": ["ops/repairs"],
    "runs": ["ops/runs"],
}
"""What a user may lose, by the name that the tests give it: patterns below the lakehouse."""
DERIVED: Mapping[str, str] = {
    "quarantine": "silver/quarantine was gone",
    "pending": "silver/pending was gone",
    "replica": "its replica is gone",
    "history": "its history is gone",
    "log": "its replica is gone",
    "counts": "ops/batches was gone",
    "states": "its progress was not known",
    "statements": "ops/statements was gone",
    "epochs": "ops/epochs was gone",
    "bad_values": "ops/bad_values was gone",
    "repairs": "ops/repairs was gone",
    "runs": "ops/runs was gone",
}
"""What a run makes again without a word from anybody, mostly from the messages and the changes;
and what the run says of it.
"""
COPIES = frozenset({"kept"})
"""What a run makes again from tables that are there: nothing is wrong without it."""
EVERYTHING: Sequence[str] = ("changes", "schemas", "files", *DERIVED)
"""All of silver, gold and ops; bronze and the checkpoints stay."""
FEW: Sequence[Sequence[str]] = (tuple(DERIVED), ("messages", "schemas"), ("messages", "changes", "counts"))

LogRow = dict[str, Any]


def log(op: str, sequence: int, hours: float, **images: Any) -> LogRow:
    """A message of a table without a key."""
    found = later(op, sequence, hours, tableName="log", **images)
    found["schema"]["primaryKey"] = []
    return found


@pytest.fixture(scope="module")
def shop(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Shop:
    """A pipeline with something in each of its tables, and one more file that waits to be read."""
    folder = tmp_path_factory.mktemp("lost")
    config = str(folder / "mainstem.yml")
    shop = Shop(spark, folder, "tables: [{match: shop.item, history: true}]\n")
    shop.land(
        [
            message("INSERT", 400, after=item(9, "truncated", 9.0)),
            message("TRUNCATE", 450, payload={"ddl": {"text": "truncate table item"}}),
            message("INSERT", 500, after=item(1, "pen", 1.0)),
            message("INSERT", 501, after=item(2, "ink", 2.0)),
            message("INSERT", 502, after={**item(6, "gem", 0.0), "price": "dear"}),
            log("INSERT", 503, 0, after=item(1, "first", 0.0)),
            "no message",
            later("DELETE", 1, 5, before=item(1, "pen", 1.0)),
            later("INSERT", 2, 5, after=item(3, "cap", 3.0)),
        ]
    )
    assert main(["run", "-c", config]) == 1  # the positions have begun anew
    set_epoch(folder, 2)
    shop.land(
        [
            later("UPDATE_BEFOR", 5, 6, before=item(2, "ink", 2.0)),
            later("INSERT", 6, 6, after=item(4, "map", 4.0)),
            log("INSERT", 7, 6, after=item(2, "second", 0.0)),
            "no message either",
        ]
    )
    assert main(["run", "-c", config]) == 0
    if IS_LARGE:
        assert main(["rebuild", "shop.item", "--from", "bronze", "-c", config]) == 0
    shop.land(
        [
            later("UPDATE_AFTER", 5, 6, after=item(2, "ink", 2.5)),
            later("INSERT", 6, 6, after=item(4, "map", 4.0)),
            later("UPDATE", 8, 7, before=item(3, "cap", 3.0), after=item(3, "cap", 3.5)),
            later("INSERT", 9, 7, after=item(5, "box", 5.0)),
            log("INSERT", 7, 6, after=item(2, "second", 0.0)),
            log("INSERT", 10, 7, after=item(3, "third", 0.0)),
        ]
    )
    return shop


def set_epoch(folder: Path, epoch: int) -> None:
    file = folder / "mainstem.yml"
    text = re.sub(r"epoch: \d+, ", "", file.read_text())
    file.write_text(text.replace("pairing_timeout", f"epoch: {epoch}, pairing_timeout"))


def copied(shop: Shop, folder: Path) -> Shop:
    """The pipeline in another folder: Spark remembers tables by their paths."""
    shutil.copytree(shop.folder, folder)
    copy = object.__new__(Shop)
    copy.spark, copy.folder, copy.files = shop.spark, folder, shop.files
    return copy


def run(shop: Shop, backup: Shop) -> tuple[list[str], str]:
    """Run until all is well, doing what each error says.
    Returns the conditions of the errors, and what the last run printed.
    """
    return run_on(
        shop.folder / "lakehouse",
        backup.folder / "lakehouse",
        ["run", "-c", str(shop.folder / "mainstem.yml")],
    )


def patterns_of(parts: Sequence[str], lakehouse: Path) -> list[str]:
    """What is taken away; where little is tried, nothing has been repaired before,
    so that there is no log of it.
    """
    patterns = [pattern for part in parts for pattern in PARTS[part]]
    return [
        pattern
        for pattern in patterns
        if IS_LARGE or pattern != "ops/repairs" or (lakehouse / pattern).exists()
    ]


def rows(folder: Path, name: str) -> list[LogRow]:
    place = folder / "lakehouse" / name
    return DeltaTable(str(place)).to_pyarrow_table().to_pylist() if (place / "_delta_log").is_dir() else []


def texts(found: Sequence[LogRow], *names: str) -> list[str]:
    return sorted(repr([row[name] for name in names]) for row in found)


def state(folder: Path) -> dict[str, Any]:
    """What must not depend on what was lost: rows, changes, and what is derived from them."""
    changes, at = rows(folder, "silver/changes"), ("topic", "partition", "offset")
    decided = [row for row in changes if row["kind"] in ("row", "ddl", "truncate") and row["half"] is None]
    open_rows = [row for row in rows(folder, "silver/quarantine") if not row["is_resolved"]]
    own = ("_cdc_sequence", "_cdc_change_id")
    history = rows(folder, "gold/shop/item__history")
    return {
        "replica": texts(rows(folder, "gold/shop/item"), "id", "name", "price", *own),
        "log": texts(rows(folder, "gold/shop/log"), "id", "name", *own),
        "history": texts(history, "id", "name", "price", "_cdc_valid_from", "_cdc_valid_to", "_cdc_op", *own),
        "changes": texts(
            decided, "change_id", "op", "sequence", "before", "after", "schema_id", "event_time"
        ),
        "messages": texts(rows(folder, "bronze/messages"), *at, "value"),
        "quarantine": texts(open_rows, *at, "reason", "value"),
        "pending": texts(rows(folder, "silver/pending"), *at, "sequence"),
        "statements": sorted({row["change_id"] for row in rows(folder, "ops/statements")}),
        "bad_values": texts(
            rows(folder, "ops/bad_values"), "table", "column", "text", "reason", "change_id", "sequence"
        ),
        "epochs": sorted(
            {
                repr([row[name] for name in ("epoch", *at)])
                for row in rows(folder, "ops/epochs")
                if row["state"] == "begun"
            }
        ),
        "kinds": {kind: n for kind, n in Counter(row["kind"] for row in changes).items() if kind != "half"},
    }


def uncounted(folder: Path) -> dict[str, int]:
    """By how much the counts of the batches that silver holds differ from its rows."""
    changes = rows(folder, "silver/changes")
    since = min(row["batch"] for row in changes)
    found = Counter(row["kind"] for row in changes)
    for row in rows(folder, "ops/batches"):
        found[row["kind"]] -= row["rows"] if row["batch"] >= since else 0
    return {kind: n for kind, n in found.items() if n}


def sets_to_lose() -> list[tuple[str, ...]]:
    draw = Random(SEED)
    singles: list[tuple[str, ...]] = [*((part,) for part in PARTS), tuple(EVERYTHING), *map(tuple, FEW)]
    pairs: list[tuple[str, ...]] = list(itertools.combinations(PARTS, 2))
    draw.shuffle(pairs)
    drawn = [tuple(draw.sample(list(PARTS), draw.randint(3, len(PARTS)))) for _ in range(DRAWN)]
    named = {"singles": singles, "pairs": pairs, "drawn": drawn}
    if GIVEN:
        return [parts for given in GIVEN for parts in named.get(given[0], [given])]
    return [*singles, *pairs, *drawn] if IS_LARGE else list(map(tuple, FEW))


@pytest.mark.long
def test_any_part_of_the_state_may_be_gone(
    shop: Shop, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = copied(shop, tmp_path / "whole")
    assert run(whole, shop)[0] == []
    expected = state(whole.folder)
    assert sorted(row["value"] for row in rows(whole.folder, "silver/quarantine")) == [
        b"no message",
        b"no message either",
    ]
    assert len(expected["bad_values"]) == 1

    def lose(damaged: Shop, parts: Sequence[str]) -> list[str]:
        take_away(damaged.folder / "lakehouse", patterns_of(parts, damaged.folder / "lakehouse"))
        errors, printed = repaired(damaged, shop, capsys, parts)
        check(damaged, expected, errors, parts)
        if len(parts) == 1 and parts[0] in DERIVED:
            assert DERIVED[parts[0]] in printed, printed
        return errors

    try_sets(shop, tmp_path, capsys, lose)


@pytest.mark.long
def test_any_part_of_the_state_may_be_an_older_copy(
    shop: Shop, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = copied(shop, tmp_path / "whole")
    assert run(whole, shop)[0] == []
    # where the note of the last run is an older copy, too, a half that an older copy says is waiting goes to
    # quarantine after its time: a false alarm, no loss
    expected = {name: value for name, value in state(whole.folder).items() if name != "pending"}

    def age(damaged: Shop, parts: Sequence[str]) -> list[str]:
        older = shop.folder / "lakehouse"
        put_back(damaged.folder / "lakehouse", older, patterns_of(parts, older))
        errors, _ = run(damaged, whole)
        check(damaged, expected, errors, parts=None)
        return errors

    try_sets(whole, tmp_path, capsys, age)


def try_sets(
    pipeline: Shop,
    folder: Path,
    capsys: pytest.CaptureFixture[str],
    damage: Callable[[Shop, Sequence[str]], list[str]],
) -> None:
    """Damage each set of parts in a copy of the pipeline, and run it until it is right again.
    `damage` returns the conditions of the errors on the way, and raises what is wrong in the end.
    """
    failures: dict[str, str] = {}
    conditions: Counter[str] = Counter()
    for number, parts in enumerate(sets_to_lose()):
        damaged, name = copied(pipeline, folder / f"damaged-{number}"), " ".join(parts)
        try:
            errors = damage(damaged, parts)
        except Exception as error:  # all sets are tried, and those that fail are listed together
            errors = [f"FAILED {type(error).__name__}: {error}"[:1500]]
            failures[name] = errors[0]
        else:
            shutil.rmtree(damaged.folder)
            conditions.update(errors)
        with capsys.disabled():
            print(f"{name}: {', '.join(errors) or 'right'}", flush=True)
    with capsys.disabled():
        print(f"MAINSTEM_SEED={SEED}: {len(sets_to_lose())} sets, {dict(conditions)}")
    assert failures == {}


def repaired(
    damaged: Shop, whole: Shop, capsys: pytest.CaptureFixture[str], parts: Sequence[str]
) -> tuple[list[str], str]:
    """Run until all is well; `status --verify` says before that something is wrong,
    and nothing is behind it.
    """
    if not IS_LARGE:
        return run(damaged, whole)
    is_seen = not set(parts) <= COPIES
    assert command(damaged, capsys, "status", "--verify")[0] == is_seen, "status --verify is content"
    errors, printed = run(damaged, whole)
    code, verified = command(damaged, capsys, "status", "--verify")
    assert (code, broken(verified)) == (0, [])
    return errors, printed


def check(
    damaged: Shop, expected: Mapping[str, Any], errors: Sequence[str], parts: Sequence[str] | None
) -> None:
    """The state is that of a pipeline that has lost nothing; without parts, a run may say anything."""
    found = state(damaged.folder)
    wrong = {
        name: _difference(found[name], value) for name, value in expected.items() if found[name] != value
    }
    if wrong or uncounted(damaged.folder):
        raise AssertionError(f"{errors}: {wrong}, {uncounted(damaged.folder)}")
    if parts is not None and set(parts) <= DERIVED.keys() | COPIES:
        assert errors == []


def _difference(found: Any, expected: Any) -> str:
    if isinstance(found, dict):
        return f"{found}, and not {expected}"
    surplus, missing = Counter(found) - Counter(expected), Counter(expected) - Counter(found)
    return f"surplus {list(surplus.elements())}, missing {list(missing.elements())}"
