"""The structure of the project. `make lint` checks the import contracts."""

from __future__ import annotations

import dataclasses
import re
import warnings
from pathlib import Path

from framework.contracts.quality import QualityResult
from framework.contracts.table_schemas import CHANGES, QUALITY_RESULTS
from silver.changes.staged_rows import STAGED, STAGED_DDL
from silver.formats import FORMATS

ROOT = Path(__file__).parents[2]
PACKAGES = ("mainstem", "framework", "bronze", "silver", "gold")
SMELL, MOST = 250, 400
NO_NOUNS = {"utils", "util", "helpers", "helper", "common", "manager", "processor", "handler", "base"}


def modules() -> list[Path]:
    return sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))


def relative(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def test_registry_modules_and_fixture_folders_name_the_same_formats() -> None:
    registry = set(FORMATS)
    written = {path.stem for path in (ROOT / "silver" / "formats").glob("*.py")} - {"__init__"}
    fixtures = {path.name for path in (ROOT / "tests" / "fixtures" / "formats").iterdir() if path.is_dir()}
    assert registry == written, "each module of silver/formats is a line in silver/formats/__init__.py"
    assert registry == fixtures, "each format has a folder of its own in tests/fixtures/formats"


def test_each_format_is_registered_under_its_modules_name() -> None:
    assert all(
        FORMATS[name].name == name == FORMATS[name].decode.__module__.rpartition(".")[2] for name in FORMATS
    )


def test_each_fixture_folder_names_its_origin_and_has_events_beside_each_raw_file() -> None:
    for name in FORMATS:
        folder = ROOT / "tests" / "fixtures" / "formats" / name
        assert (folder / "ORIGIN.md").is_file(), f"{name}: ORIGIN.md says where the messages come from"
        raws = {path.stem for path in folder.glob("*.raw")}
        assert raws, f"{name}: write messages into tests/fixtures/formats/{name}/rows.raw"
        events = {path.name.removesuffix(".events.json") for path in folder.glob("*.events.json")}
        assert raws == events, f"{name}: each <scenario>.raw has a <scenario>.events.json"


def test_each_format_has_a_sample_feed() -> None:
    samples = {path.stem for path in (ROOT / "framework" / "demo" / "samples").glob("*.jsonl")}
    assert samples == set(FORMATS), (
        "`mainstem formats --sample NAME` prints framework/demo/samples/NAME.jsonl"
    )


def test_decoded_rows_have_the_fields_of_the_change_table_in_order() -> None:
    staged = [
        name
        for name in STAGED.names
        if name not in ("columns", "block", "evidence", "restart", "run", "run_end", "committed", "earliest")
    ]
    assert staged == [field.name for field in CHANGES.fields if field.name != "batch"]


def test_quality_results_have_the_columns_of_their_table_in_order() -> None:
    assert [field.name for field in dataclasses.fields(QualityResult)] == QUALITY_RESULTS.names


def test_the_text_of_the_staged_schema_names_the_same_fields() -> None:
    top = re.sub(r"<[^>]*>", "", STAGED_DDL)
    assert [column.split()[0].strip("`") for column in top.split(",")] == STAGED.names


def test_no_module_is_too_long() -> None:
    lines = {relative(path): len(path.read_text(encoding="utf-8").splitlines()) for path in modules()}
    smelly = {name: count for name, count in sorted(lines.items()) if count > SMELL}
    if smelly:
        warnings.warn(f"modules of more than {SMELL} lines: {smelly}", stacklevel=1)
    assert {name: count for name, count in lines.items() if count > MOST} == {}


def test_no_module_is_named_for_what_it_is_not() -> None:
    named = [
        relative(path)
        for path in modules()
        if NO_NOUNS & {*path.stem.split("_"), *path.relative_to(ROOT).parts[:-1]}
    ]
    assert named == []


def test_no_column_depends_on_chance() -> None:
    # a task that is repeated after the loss of a worker must give the same rows
    chance = re.compile(r"F\.(rand|randn|uuid|shuffle|monotonically_increasing_id)\(|\b(rand|randn|uuid)\(\)")
    assert [relative(path) for path in modules() if chance.search(path.read_text(encoding="utf-8"))] == []


def test_tests_are_no_packages() -> None:
    assert [relative(path) for path in (ROOT / "tests").rglob("__init__.py")] == []
