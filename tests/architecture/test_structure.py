"""The structure of the project, held by tests. Import contracts are `make lint`'s to check."""

from __future__ import annotations

import dataclasses
import re
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

from framework.contracts.quality import QualityResult
from framework.contracts.tables import CHANGES, QUALITY_RESULTS
from silver.formats import FORMATS
from silver.rows import STAGED, STAGED_DDL

ROOT = Path(__file__).parents[2]
PACKAGES = ("framework", "bronze", "silver", "gold")
SMELL, MOST = 250, 400
NO_NOUNS = {"utils", "util", "helpers", "helper", "common", "manager", "processor", "handler", "base"}
# put together here, so that this file does not hold them
INNER_WORDS = ("shared" + "/design", "accept" + "ance")
GENERATED = {"build", "dist", "demo", "spark-warehouse", "metastore_db", "__pycache__"}
TEXT_FILES = {".py", ".md", ".toml", ".yml", ".yaml", ".json", ".raw", ".keys", ".txt", ".properties", ".sql", ""}


def modules() -> list[Path]:
    return sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))


def project_files() -> Iterator[Path]:
    """What a clone of the repository holds; hidden folders are caches and environments, but for the build's own."""
    pending = [ROOT]
    while pending:
        for path in sorted(pending.pop().iterdir()):
            if path.is_symlink() or path.name in GENERATED or path.name.endswith(".egg-info"):
                continue
            if path.is_dir():
                if not path.name.startswith(".") or path.name in (".ci", ".github"):
                    pending.append(path)
            elif path.suffix in TEXT_FILES:
                yield path


def relative(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def test_registry_modules_and_fixture_folders_name_the_same_formats() -> None:
    registry = set(FORMATS)
    written = {path.stem for path in (ROOT / "silver" / "formats").glob("*.py")} - {"__init__"}
    fixtures = {path.name for path in (ROOT / "tests" / "fixtures" / "formats").iterdir() if path.is_dir()}
    assert registry == written
    assert registry == fixtures


def test_each_format_is_registered_under_its_modules_name() -> None:
    assert all(FORMATS[name].name == name == FORMATS[name].decode.__module__.rpartition(".")[2] for name in FORMATS)


def test_each_fixture_folder_names_its_origin_and_has_events_beside_each_raw_file() -> None:
    for name in FORMATS:
        folder = ROOT / "tests" / "fixtures" / "formats" / name
        assert (folder / "ORIGIN.md").is_file(), name
        raws = {path.stem for path in folder.glob("*.raw")}
        assert raws, name
        assert raws == {path.name.removesuffix(".events.json") for path in folder.glob("*.events.json")}, name


def test_decoded_rows_have_the_fields_of_the_change_table_in_order() -> None:
    staged = [name for name in STAGED.names if name not in ("position", "columns")]
    assert staged == [field.name for field in CHANGES.fields if field.name != "batch"]


def test_quality_results_have_the_columns_of_their_table_in_order() -> None:
    assert [field.name for field in dataclasses.fields(QualityResult)] == QUALITY_RESULTS.names


def test_the_text_of_the_staged_schema_names_the_same_fields() -> None:
    top = re.sub(r"<[^>]*>", "", STAGED_DDL)
    assert [column.split()[0].strip("`") for column in top.split(",")] == STAGED.names


def test_no_module_has_more_than_400_lines() -> None:
    lines = {relative(path): len(path.read_text(encoding="utf-8").splitlines()) for path in modules()}
    smelly = {name: count for name, count in sorted(lines.items()) if count > SMELL}
    if smelly:
        warnings.warn(f"modules of more than {SMELL} lines: {smelly}", stacklevel=1)
    assert {name: count for name, count in lines.items() if count > MOST} == {}


def test_no_module_is_named_for_what_it_is_not() -> None:
    named = [relative(path) for path in modules() if NO_NOUNS & {*path.stem.split("_"), *path.relative_to(ROOT).parts[:-1]}]
    assert named == []


def test_no_column_depends_on_chance() -> None:
    # a task that is run again, when a worker was lost, must give the same rows
    chance = re.compile(r"F\.(rand|randn|uuid|shuffle|monotonically_increasing_id)\(|\b(rand|randn|uuid)\(\)")
    assert [relative(path) for path in modules() if chance.search(path.read_text(encoding="utf-8"))] == []


def test_tests_are_no_packages() -> None:
    assert [relative(path) for path in (ROOT / "tests").rglob("__init__.py")] == []


@pytest.mark.parametrize("word", INNER_WORDS)
def test_no_project_file_speaks_of_papers_that_readers_do_not_have(word: str) -> None:
    # the license's own text is not ours to word
    found = [
        relative(p) for p in project_files() if p.name != "LICENSE" and word in p.read_text(encoding="utf-8", errors="replace").lower()
    ]
    assert found == []
