"""The Databricks bundle holds together, as far as that can be seen without a workspace; and a broken one is noticed."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

pytest.importorskip("databricks.bundles", reason="the group `bundle` of pyproject.toml is not installed")

from tests.architecture.bundle import BUNDLE, read_bundle, target_names
from tests.architecture.bundle_checks import problems, quartz_problems

ROOT = Path(__file__).parents[2]
JOB = "framework/pipeline.job.yml"
TARGETS = target_names(ROOT)


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A copy of what makes the bundle."""
    for file in (ROOT / BUNDLE, ROOT / "pyproject.toml", *ROOT.glob("*/*.job.yml")):
        target = tmp_path / file.relative_to(ROOT)
        target.parent.mkdir(exist_ok=True)
        shutil.copyfile(file, target)
    return tmp_path


@pytest.mark.parametrize("target", TARGETS)
def test_the_bundle_holds_together_in_each_target(target: str) -> None:
    assert problems(read_bundle(ROOT, target)) == []


@pytest.mark.parametrize("target", TARGETS)
def test_the_layers_follow_each_other_whatever_became_of_the_one_before(target: str) -> None:
    tasks = list(read_bundle(ROOT, target).tasks)
    assert [task["task_key"] for task in tasks] == ["bronze", "silver", "gold"]
    assert [task["python_wheel_task"]["parameters"][:3] for task in tasks] == [
        ["run", "--through", "bronze"],
        ["run", "--through", "silver"],
        ["run", "--through", "gold"],
    ]
    assert [(task.get("depends_on"), task.get("run_if")) for task in tasks] == [
        (None, None),
        ([{"task_key": "bronze"}], "ALL_DONE"),
        ([{"task_key": "silver"}], "ALL_DONE"),
    ]


def test_the_targets_differ_by_mode_and_compute_alone() -> None:
    modes = {target: read_bundle(ROOT, target).content["mode"] for target in TARGETS}
    assert modes == {"dev": "development", "prod": "production", "dev_cluster": "development", "prod_cluster": "production"}
    places = {target: {"job_cluster_key" in task for task in read_bundle(ROOT, target).tasks} for target in TARGETS}
    assert places == {"dev": {False}, "prod": {False}, "dev_cluster": {True}, "prod_cluster": {True}}


def test_the_configuration_is_looked_for_in_the_volume_that_the_bundle_makes() -> None:
    task = next(read_bundle(ROOT, "dev").tasks)
    assert task["python_wheel_task"]["parameters"][-2:] == ["-c", "/Volumes/main/mainstem_ops/files/mainstem.yml"]


def test_the_page_about_databricks_names_each_variable_and_target() -> None:
    page = (ROOT / "docs" / "databricks.md").read_text(encoding="utf-8")
    names = set(re.findall(r"^\| `(\w+)`", page, re.MULTILINE))
    assert names == {*read_bundle(ROOT, "dev").content["variables"], *TARGETS}


BROKEN = [
    # misspelt keys, in each of the places where keys are
    (BUNDLE, "include:", "includes:", "includes: unknown key"),
    (BUNDLE, "    build: uv", "    biuld: uv", "artifacts.mainstem.biuld: unknown key"),
    (BUNDLE, "    default: UTC", "    defualt: UTC", "variables.timezone.defualt: unknown key"),
    (BUNDLE, "    run_as:", "    runs_as:", "targets.prod.runs_as: unknown key"),
    (BUNDLE, "    mode: production", "    mode: productive", "neither development nor production"),
    (BUNDLE, "level: CAN_RUN", "level: CAN_RUNN", "unknown level CAN_RUNN"),
    (BUNDLE, "catalog_name: ${var.catalog}", "catalogue_name: ${var.catalog}", "Unexpected field 'catalogue_name' for class Schema"),
    (BUNDLE, "      schema_name:", "      shema_name:", "Unexpected field 'shema_name' for class Volume"),
    (BUNDLE, "  volumes:\n", "  volume:\n", "resources.volume: unknown k"),
    (BUNDLE, "                environment_version: $", "                enviroment_version: $", "Unexpected field 'enviroment_version'"),
    (BUNDLE, "data_security_mode: SINGLE_USER", "data_security_mode: SINGLE", "'SINGLE' is not a valid DataSecurityMode"),
    (JOB, "max_retries", "max_retry", "Unexpected field 'max_retry' for class Task"),
    (JOB, "package_name", "package", "Unexpected field 'package' for class PythonWheelTask"),
    (JOB, "run_if: ALL_DONE", "run_if: ALL_DON", "'ALL_DON' is not a valid RunIf"),
    (JOB, "RUN_DURATION_SECONDS", "RUN_DURATION", "'RUN_DURATION' is not a valid JobsHealthMetric"),
    (JOB, "resources:", "resource:", "pipeline.job.yml: unknown key resource"),
    # references
    (JOB, "${var.config}", "${var.configuration}", "unknown reference ${var.configuration}"),
    (JOB, "${var.notify}", "${var.notify", "a reference that does not end"),
    (BUNDLE, "${resources.schemas.ops.name}", "${resources.schemas.opps.name}", "unknown reference ${resources.schemas.opps.name}"),
    (BUNDLE, "${resources.volumes.files.name}", "${resources.volumes.files.nam}", "unknown reference ${resources.volumes.files.nam}"),
    (BUNDLE, "${bundle.target}", "${bundle.traget}", "unknown reference ${bundle.traget}"),
    (BUNDLE, "current_user.userName", "current_user.user", "unknown reference ${workspace.current_user.user}"),
    (BUNDLE, "    default: main\n", "    default: ${var.catalog}\n", "refers to itself"),
    (BUNDLE, '    default: "0 0 * * * ?"\n', "", "unknown reference ${var.schedule}"),
    (BUNDLE, "resources:\n  schemas:", "  spare:\n    default: x\nresources:\n  schemas:", "variables.spare: nothing uses it"),
    # names
    (BUNDLE, '"*/*.job.yml"', '"*/*.jobs.yml"', "names no file"),
    (BUNDLE, "  volumes:\n    files:", "  volumes:\n    mainstem:", "more than one is named mainstem"),
    (BUNDLE, "      jobs:\n        mainstem:", "      jobs:\n        mainsteam:", "overrides resources.jobs.mainsteam, which is not there"),
    (BUNDLE, "{task_key: gold, environment_key", "{task_key: golden, environment_key", "mainstem.golden: no python_wheel_task"),
    (BUNDLE, "{task_key: gold, job_cluster_key: default", "{task_key: gold, job_cluster_key: big", "mainstem.gold: not one place to run"),
    (JOB, "depends_on: [{task_key: silver}]", "depends_on: [{task_key: sliver}]", "comes after sliver"),
    (JOB, "max_concurrent_runs: 1", "max_concurrent_runs: 2", "runs may overlap"),
    # entry points, wheels, schedules, commands
    (JOB, "entry_point: mainstem-job", "entry_point: mainstem_job", "no entry point mainstem_job in pyproject.toml"),
    (JOB, "entry_point: mainstem-job", "entry_point: mainstem", "which is lost in a job"),
    ("pyproject.toml", 'mainstem-job = "framework.cli:job"\n', "", "no entry point mainstem-job in pyproject.toml"),
    ("pyproject.toml", "framework.cli:job", "framework.cli:jobs", "there is no framework.cli:jobs"),
    (JOB, "package_name: mainstem", "package_name: main_stem", "the package is mainstem"),
    (BUNDLE, "- ./dist/*.whl", "- ./build/*.whl", "is not where mainstem-"),
    (BUNDLE, "whl: ./dist/*.whl", "whl: ./dist/main_stem*.whl", "is not where mainstem-"),
    (BUNDLE, "uv build --wheel", "python -m build", "not a wheel built by uv"),
    (BUNDLE, "0 0 * * * ?", "0 * * * *", "has 5 fields"),
    (BUNDLE, "0 0 * * * ?", "0 61 * * * ?", "'61' is no minutes"),
    (BUNDLE, "    default: UTC", "    default: Mars/Olympus", "no time zone Mars/Olympus"),
    (JOB, '"--through", "gold"', '"--through", "platinum"', "gold: mainstem run: error: argument --through: invalid choice"),
    (JOB, '["run", "--through", "bronze"', '["land", "--through", "bronze"', "invalid choice: 'land'"),
    (JOB, '"-c"', '"--configuration"', "unrecognized arguments"),
    (BUNDLE, "    default: /Volumes/", "    default: ./", "a job does not reach ./"),
]


@pytest.mark.parametrize(("file", "old", "new", "expected"), BROKEN)
def test_a_broken_bundle_is_noticed(copy: Path, file: str, old: str, new: str, expected: str) -> None:
    text = (copy / file).read_text(encoding="utf-8")
    assert old in text
    (copy / file).write_text(text.replace(old, new), encoding="utf-8")
    found = [problem for target in TARGETS for problem in problems(read_bundle(copy, target))]
    assert any(expected in problem for problem in found), found


@pytest.mark.parametrize("expression", ["0 0 * * * ?", "0 */15 * * * ?", "0 30 2 ? * MON-FRI", "0 0 6,18 L * ? 2030", "0 0 0 ? 1/3 6#1"])
def test_quartz_understands(expression: str) -> None:
    assert quartz_problems(expression) == []


@pytest.mark.parametrize("expression", ["", "* * * * *", "0 0 * * * *", "0 0 ? * * ?", "0 0 24 * * ?", "0 0 0 ? * MOO", "0 0/0 * * * ?"])
def test_quartz_does_not_understand(expression: str) -> None:
    assert quartz_problems(expression)
