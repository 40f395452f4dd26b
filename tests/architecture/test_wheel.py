"""The wheel holds all that an installation needs: packages, sample feeds, entry points."""

from __future__ import annotations

import configparser
import shutil
import tomllib
import zipfile
from pathlib import Path

import pytest

from tests.architecture.wheel import ROOT, built_wheel

PACKAGES = ("mainstem", "framework", "bronze", "silver", "gold")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built_wheel(tmp_path_factory.mktemp("dist"))


@pytest.fixture(scope="module")
def names(wheel: Path) -> set[str]:
    return set(zipfile.ZipFile(wheel).namelist())


def test_the_wheel_has_the_name_that_the_bundle_expects(wheel: Path) -> None:
    assert wheel.name == f"{PROJECT['name']}-{PROJECT['version']}-py3-none-any.whl"


def test_the_wheel_holds_every_file_of_the_packages_and_nothing_else(names: set[str]) -> None:
    files = (
        path
        for package in PACKAGES
        for path in (ROOT / package).rglob("*")
        if path.is_file() and path.parent.name != "__pycache__" and path not in bundle_files()
    )
    assert {name for name in names if ".dist-info/" not in name} == {
        path.relative_to(ROOT).as_posix() for path in files
    }
    assert {f"{package}/__init__.py" for package in PACKAGES} <= names


def test_each_package_of_the_wheel_says_that_it_is_typed(names: set[str]) -> None:
    # https://peps.python.org/pep-0561/
    assert {f"{package}/py.typed" for package in PACKAGES} <= names


def bundle_files() -> set[Path]:
    """The files of the Databricks bundle, which needs more of the repository than the packages."""
    return {*ROOT.glob("*/*.job.yml"), *ROOT.glob("*/*.lvdash.json")}


def test_the_wheel_holds_the_demo_and_no_part_of_the_bundle(names: set[str]) -> None:
    assert "framework/demo/mainstem.yml" in names
    assert any(name.startswith("framework/demo/parts/1/shop/") for name in names)
    assert "framework/demo/samples/datahub_blob.jsonl" in names
    assert bundle_files()
    assert {path.relative_to(ROOT).as_posix() for path in bundle_files()} & names == set()


def test_the_same_code_gives_a_wheel_of_the_same_time_and_changed_code_one_of_another(
    wheel: Path, tmp_path: Path
) -> None:
    # the version that a job installs is made from this time
    again = built_wheel(tmp_path / "again")
    assert again.stat().st_mtime_ns == wheel.stat().st_mtime_ns
    project = tmp_path / "project"
    for name in (*PACKAGES, "pyproject.toml", "hatch_build.py", "README.md", "LICENSE"):
        source = ROOT / name
        copy = shutil.copytree if source.is_dir() else shutil.copyfile
        project.mkdir(exist_ok=True)
        copy(source, project / name)
    same = built_wheel(tmp_path / "same", project)
    assert same.stat().st_mtime_ns == wheel.stat().st_mtime_ns
    with (project / "framework" / "errors.py").open("a", encoding="utf-8") as module:
        module.write("# changed\n")
    assert built_wheel(tmp_path / "changed", project).stat().st_mtime_ns != wheel.stat().st_mtime_ns


def test_the_entry_points_of_the_wheel_lead_to_modules_in_it(wheel: Path, names: set[str]) -> None:
    points = configparser.ConfigParser(delimiters=("=",))
    (entry,) = (name for name in names if name.endswith(".dist-info/entry_points.txt"))
    points.read_string(zipfile.ZipFile(wheel).read(entry).decode())
    assert dict(points["console_scripts"]) == PROJECT["scripts"]
    assert dict(points["mainstem.layers"]) == PROJECT["entry-points"]["mainstem.layers"]
    assert {"mainstem", "mainstem-job", "mainstem-step"} <= points["console_scripts"].keys()
    for section in points.sections():
        for value in points[section].values():
            module = value.partition(":")[0].replace(".", "/")
            assert {f"{module}.py", f"{module}/__init__.py"} & names


def test_the_wheel_brings_no_spark_unless_it_is_asked_to(wheel: Path, names: set[str]) -> None:
    (entry,) = (name for name in names if name.endswith(".dist-info/METADATA"))
    needs = [
        line.partition(": ")[2]
        for line in zipfile.ZipFile(wheel).read(entry).decode().splitlines()
        if line.startswith("Requires-Dist")
    ]
    spark = sorted(need.replace(" ", "") for need in needs if need.startswith(("pyspark", "delta-spark")))
    assert spark == ["delta-spark==4.4.0;extra=='local'", "pyspark==4.1.*;extra=='local'"]
