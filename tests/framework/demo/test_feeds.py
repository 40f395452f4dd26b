from __future__ import annotations

import shlex
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from bronze.files.line_parser import LAYOUTS, group_lines, split_lines
from framework.config.model import Config, load_config
from framework.contracts.events import Control, ControlKind, Half, Op, RowChange
from framework.contracts.messages import RawMessage
from framework.contracts.quarantine_reasons import Malformed, Reason
from framework.demo import feeds
from framework.errors import MainstemError
from framework.lakehouse.lakehouse import Lakehouse
from framework.lakehouse.lease import hold_lease
from silver.decoding.format import Context, Options
from silver.formats import FORMATS
from tests.framework.demo.sample_feeds import DEMO, build
from tests.framework.demo.story import Row, tell
from tests.framework.demo.wires import WIRES

Found = tuple[int, RowChange | Control | Malformed]
FEEDS = [feed for feed, (name, _) in WIRES.items() if name in FORMATS]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = feeds.prepare(str(tmp_path / "demo"))
    for part in feeds.parts(place):
        feeds.land(place, part)
    return place


@pytest.fixture
def config(folder: Path) -> Config:
    return load_config(
        folder / "mainstem.yml", formats={name: known.options for name, known in FORMATS.items()}, environ={}
    )


def decoded(config: Config, feed: str) -> Iterator[Found]:
    """Part and event (or refusal) of each message of a landed feed."""
    source = config.sources[feed]

    def keys(database: str | None, schema: str | None, table: str) -> tuple[str, ...] | None:
        return config.settings(feed, database, schema, table).keys

    assert isinstance(source.options, Options)
    context = Context(feed, source.options, source.timezone, keys)
    for file in sorted(Path(source.files or "").iterdir()):
        for block in group_lines(split_lines([file.read_bytes()])):
            found = LAYOUTS[source.layout](block, file.name)
            for at, value in enumerate(found.value):
                coordinates = (found.topic[at], found.partition[at], found.offset[at])
                part = int(file.stem[-1])
                try:
                    events = FORMATS[source.format].decode(
                        RawMessage(feed, *coordinates, None, found.key[at], value), context
                    )
                except Malformed as refusal:
                    yield part, refusal
                    continue
                for event in events:
                    yield part, event


def folded(found: list[Found]) -> dict[str, list[Row]]:
    """The tables that a feed's changes lead to, in the simplest way there is:
    halves joined, in order, one by one.
    """
    changes: dict[tuple[tuple[int, ...], str, int], list[RowChange]] = {}
    for at, (_, event) in enumerate(found):
        if isinstance(event, RowChange):
            order = (event.position or (), event.table, 0 if event.position else at)
            changes.setdefault(order, []).append(event)
    tables: dict[str, dict[tuple[str | None, ...], Row]] = {}
    for order in sorted(changes, key=lambda order: (order[0], order[2])):
        event = changes[order][0]
        before = next((one.before for one in changes[order] if one.before is not None), None)
        after = next((one.after for one in changes[order] if one.after is not None), None)
        rows = tables.setdefault(event.table, {})
        assert event.keys
        gone = rows.pop(tuple(before[name] for name in event.keys)) if before is not None else {}
        if after is not None:
            rows[tuple(after[name] for name in event.keys)] = {**(gone if event.partial else {}), **after}
    return {name: list(rows.values()) for name, rows in tables.items()}


def without_nulls(rows: list[Row]) -> list[tuple[tuple[str, str], ...]]:
    return sorted(
        tuple(sorted((name, text) for name, text in row.items() if text is not None)) for row in rows
    )


def test_feeds_are_made_the_same_at_every_run() -> None:
    shipped = {
        str(file.relative_to(DEMO)): file.read_bytes()
        for top in ("parts", "samples")
        for file in (DEMO / top).rglob("*.jsonl")
    }
    assert shipped.keys() == build().keys(), "run: python -m tests.framework.demo.sample_feeds"
    assert shipped == build()


def test_feeds_are_those_of_the_configuration(config: Config) -> None:
    assert {name: source.format for name, source in config.sources.items()} == {
        feed: WIRES[feed][0] for feed in FEEDS
    }


@pytest.mark.parametrize("feed", FEEDS)
def test_feed_leads_to_the_tables_of_its_source(config: Config, feed: str) -> None:
    tables = folded(list(decoded(config, feed)))
    truth = {table.name: list(table.rows.values()) for table in tell().tables if table.feed == feed}
    assert tables.keys() == truth.keys()
    for name, rows in truth.items():
        assert without_nulls(tables[name]) == without_nulls(rows)


@pytest.mark.parametrize("feed", FEEDS)
def test_each_feed_has_rows_that_come_change_and_go(config: Config, feed: str) -> None:
    found = list(decoded(config, feed))
    ops = {event.op for _, event in found if isinstance(event, RowChange)}
    assert ops >= {Op.UPDATE, Op.DELETE}
    assert ops & {Op.INSERT, Op.READ}
    parts = {part for part, event in found if isinstance(event, RowChange)}
    assert parts == ({1, 2} if feed in ("shop", "prices", "staff") else {1})


def test_references_between_the_tables_hold() -> None:
    rows = {table.name: list(table.rows.values()) for table in tell().tables if table.feed == "shop"}
    assert {row["customer_id"] for row in rows["orders"]} <= {row["id"] for row in rows["customer"]}
    assert {row["order_id"] for row in rows["order_line"]} <= {row["id"] for row in rows["orders"]}


@pytest.mark.parametrize("feed", [feed for feed in FEEDS if feed != "shop"])
def test_every_message_of_the_other_feeds_is_read(config: Config, feed: str) -> None:
    assert [event for _, event in decoded(config, feed) if isinstance(event, Malformed)] == []


def test_shop_feed_shows_what_makes_such_feeds_hard(config: Config) -> None:
    found = list(decoded(config, "shop"))
    refusals = [event for _, event in found if isinstance(event, Malformed)]
    assert [refusal.reason for refusal in refusals] == [Reason.TRUNCATED, Reason.UNKNOWN_OP]
    kinds = Counter(event.kind for _, event in found if isinstance(event, Control))
    assert kinds[ControlKind.HEARTBEAT] == 2
    assert kinds[ControlKind.TRANSACTION] == 24
    assert kinds[ControlKind.DDL] == 1
    repeated = Counter((e.table, e.position, e.op, e.half) for _, e in found if isinstance(e, RowChange))
    assert sum(count > 1 for count in repeated.values()) >= 4
    assert {"customer", "orders", "order_line"} == {e.table for _, e in found if isinstance(e, RowChange)}
    assert ("order_id", "line_no") in {e.keys for _, e in found if isinstance(e, RowChange)}


@pytest.mark.parametrize("feed", ["shop", "prices"])
def test_halves_are_apart_in_the_wrong_order_and_in_different_parts(config: Config, feed: str) -> None:
    places: dict[tuple[object, ...], dict[Half, list[tuple[int, int]]]] = {}
    for at, (part, event) in enumerate(decoded(config, feed)):
        if isinstance(event, RowChange) and event.half is not None:
            places.setdefault((event.table, event.position), {}).setdefault(event.half, []).append((part, at))
    assert all(len(halves) == 2 for halves in places.values())
    pairs = [(min(halves[Half.BEFORE]), min(halves[Half.AFTER])) for halves in places.values()]
    assert any(before[0] < after[0] for before, after in pairs)
    assert any(before[0] > after[0] for before, after in pairs)
    assert any(before[0] == after[0] and before[1] > after[1] for before, after in pairs)
    assert any(abs(before[1] - after[1]) > 1 for before, after in pairs)


@pytest.mark.parametrize("feed", ["shop", "prices"])
def test_a_row_takes_another_key(config: Config, feed: str) -> None:
    keyed: dict[tuple[object, ...], set[tuple[str | None, ...]]] = {}
    for _, event in decoded(config, feed):
        if isinstance(event, RowChange) and event.half is not None and event.keys:
            image = event.before or event.after or {}
            keyed.setdefault((event.table, event.position), set()).add(
                tuple(image[name] for name in event.keys)
            )
    assert any(len(keys) == 2 for keys in keyed.values())


def test_samples_ship_for_the_formats_of_the_demo(config: Config) -> None:
    for source in config.sources.values():
        text = feeds.sample(source.format)
        assert text
        assert len(text.splitlines()) >= 5
    assert feeds.sample("no_such_format") is None
    assert feeds.sample("../mainstem.yml") is None


def test_landed_files_are_whole_and_nothing_else(folder: Path) -> None:
    landed = {
        str(file.relative_to(folder / "landing")): file.read_bytes()
        for file in (folder / "landing").rglob("*")
        if file.is_file()
    }
    assert landed == {
        path.split("/", 2)[2]: content for path, content in build().items() if path.startswith("parts/")
    }


def test_every_source_has_a_landing_folder_before_the_first_part(tmp_path: Path) -> None:
    place = feeds.prepare(str(tmp_path))
    assert {path.name for path in (place / "landing").iterdir()} == set(FEEDS)
    assert not list((place / "landing").rglob("*.jsonl"))


def test_demo_without_a_folder_makes_a_new_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    first, second = feeds.prepare(None), feeds.prepare(None)
    assert first != second
    assert first.parent == second.parent == tmp_path


def test_earlier_demo_is_removed_and_other_files_stay(folder: Path) -> None:
    (folder / "lakehouse" / "gold").mkdir(parents=True)
    (folder / "notes.txt").write_text("mine")
    assert feeds.prepare(str(folder)) == folder
    assert not (folder / "lakehouse" / "gold").exists()
    assert not list((folder / "landing").rglob("*.jsonl"))
    assert (folder / "notes.txt").read_text() == "mine"


def test_folder_with_other_files_is_refused(tmp_path: Path) -> None:
    (tmp_path / "landing").mkdir()
    with pytest.raises(MainstemError) as refused:
        feeds.prepare(str(tmp_path))
    assert refused.value.condition == "DEMO_FOLDER_NOT_EMPTY"
    assert [path.name for path in tmp_path.iterdir()] == ["landing"]


def test_place_that_is_no_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(MainstemError) as refused:
        feeds.prepare(str(tmp_path / "file"))
    assert refused.value.condition == "DEMO_FOLDER_UNUSABLE"


def test_demo_that_is_at_work_is_left_alone(folder: Path) -> None:
    with hold_lease(Lakehouse(str(folder / "lakehouse")), "demo"), pytest.raises(MainstemError) as refused:
        feeds.prepare(str(folder))
    assert refused.value.condition == "LEASE_HELD"
    assert list((folder / "landing").rglob("*.jsonl"))


def test_folder_is_absolute_and_may_begin_with_the_home_folder(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    assert feeds.prepare("~/one") == tmp_path / "one"
    assert feeds.prepare("two") == tmp_path / "two"


def test_farewell_counts_the_replicas_and_names_commands_that_work(tmp_path: Path) -> None:
    place = feeds.prepare(str(tmp_path / "it's here"))
    for name in ("shop/orders", "geo/region"):
        (place / "lakehouse" / "gold" / name / "_delta_log").mkdir(parents=True)
    text = feeds.farewell(place)
    assert text.lstrip().startswith("2 replicas, built from sample feeds of 11 formats, ")
    (more,) = [line for line in text.splitlines() if line.startswith("samples of")]
    assert more == "samples of 3 more formats, which did not run here: dms, maxwell, ogg"
    (status,) = [line for line in text.splitlines() if " status " in line]
    assert shlex.split(status)[1:] == ["status", "-c", str(place / "mainstem.yml")]
    explain, detect = (line for line in text.splitlines() if " explain " in line or " detect " in line)
    for line, said in ((explain, "schema_policy"), (detect, "there is no file to read")):
        shown = subprocess.run(shlex.split(line), capture_output=True, text=True, check=False)
        assert said in shown.stdout, (sys.executable, line, shown)


def test_repair_changes_the_one_setting_that_parks_a_table(folder: Path) -> None:
    before = (folder / feeds.CONFIGURATION).read_text(encoding="utf-8")
    feeds.repair(folder)
    after = (folder / feeds.CONFIGURATION).read_text(encoding="utf-8")
    assert before != after
    assert yaml.safe_load(before)["tables"][-1] == {"match": "hr.employee", "schema_policy": "fail"}
    assert yaml.safe_load(after)["tables"][-1] == {"match": "hr.employee", "schema_policy": "lenient"}
    assert yaml.safe_load(before)["tables"][:-1] == yaml.safe_load(after)["tables"][:-1]
