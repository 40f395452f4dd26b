"""The Databricks bundle is valid, as far as tests can tell without a workspace; faults in it are found."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

pytest.importorskip("databricks.bundles", reason="the group `bundle` of pyproject.toml is not installed")

from tests.architecture.bundle import BUNDLE, computed_id, read_bundle, target_names
from tests.architecture.bundle_checks import problems, quartz_problems

ROOT = Path(__file__).parents[2]
JOB = "framework/pipeline.job.yml"
DASHBOARD = "framework/operations.lvdash.json"
REBUILD, ARRIVAL, CONTINUOUS = "gold/gold.job.yml", "bronze/bronze.job.yml", "framework/continuous.job.yml"
TARGETS = target_names(ROOT)


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A copy of what makes the bundle."""
    for file in (ROOT / BUNDLE, ROOT / "pyproject.toml", *ROOT.glob("*/*.job.yml"), ROOT / DASHBOARD):
        target = tmp_path / file.relative_to(ROOT)
        target.parent.mkdir(exist_ok=True)
        shutil.copyfile(file, target)
    return tmp_path


@pytest.mark.parametrize("target", TARGETS)
def test_the_bundle_holds_together_in_each_target(target: str) -> None:
    assert problems(read_bundle(ROOT, target)) == []


@pytest.mark.parametrize("target", TARGETS)
def test_a_run_checks_the_configuration_runs_all_layers_and_ends_with_the_rules(target: str) -> None:
    tasks = {task["task_key"]: task for task in read_bundle(ROOT, target).jobs["mainstem"]["tasks"]}
    assert next(iter(tasks)) == "validate"
    assert "depends_on" not in tasks["validate"]
    assert tasks["validate"]["python_wheel_task"]["parameters"][:2] == ["validate", "--without-folders"]
    assert tasks["run"]["depends_on"] == [{"task_key": "validate"}]
    assert "run_if" not in tasks["run"]  # a configuration that is not valid is not run
    chosen = ["--through", "{{job.parameters.through}}", "--table", "{{job.parameters.table}}"]
    assert tasks["run"]["python_wheel_task"]["parameters"][:6] == ["run", "--without-quality", *chosen]
    assert tasks["quality"]["python_wheel_task"]["parameters"][:5] == ["run", *chosen]
    defaults = {
        each["name"]: each["default"] for each in read_bundle(ROOT, target).jobs["mainstem"]["parameters"]
    }
    assert (defaults["through"], defaults["table"]) == ("quality", "")
    assert {"task_key": "run"} in tasks["quality"]["depends_on"]
    assert tasks["quality"]["run_if"] == "ALL_DONE"


@pytest.mark.parametrize("target", TARGETS)
def test_a_parked_table_fails_one_task_that_is_not_run_again(target: str) -> None:
    bundle = read_bundle(ROOT, target)
    job = bundle.jobs["mainstem"]
    tasks = [task for owner, task in bundle.wheel_tasks if owner is job]
    ends = {
        task["task_key"]: (task["python_wheel_task"]["entry_point"], task["max_retries"]) for task in tasks
    }
    assert ends.pop("quality") == ("mainstem-job", 0)
    assert ends.pop("validate") == ("mainstem-step", 0)
    assert set(ends.values()) == {("mainstem-step", 2)}


def test_what_else_works_on_the_tables_is_a_task_of_the_one_job_and_left_out_unless_asked_for() -> None:
    job = read_bundle(ROOT, "prod").jobs["mainstem"]
    asked = {task["task_key"]: task["condition_task"] for task in job["tasks"] if "condition_task" in task}
    defaults = {each["name"]: each["default"] for each in job["parameters"]}
    assert asked.keys() == {"replay_asked", "rebuild_asked", "maintenance_asked"}
    for name, condition in asked.items():
        value = defaults[name.removesuffix("_asked")]
        assert (value == condition["right"]) is (condition["op"] == "NOT_EQUAL"), name
    commands = [
        task["python_wheel_task"]["parameters"][0]
        for owner, task in read_bundle(ROOT, "prod").wheel_tasks
        if owner == job
    ]
    assert commands == ["validate", "run", "replay", "rebuild", "maintain", "run"]
    (rebuild,) = (task["for_each_task"] for task in job["tasks"] if "for_each_task" in task)
    assert rebuild["concurrency"] == 1  # the lease is one run's


def test_the_other_jobs_start_the_pipeline_with_what_they_are_for() -> None:
    bundle = read_bundle(ROOT, "prod")
    numbers = {computed_id(bundle.content, "jobs", name): name for name in bundle.jobs}
    started = {}
    for name, job in bundle.jobs.items():
        for task in job["tasks"]:
            if "run_job_task" in task:
                started[name] = (
                    numbers[task["run_job_task"]["job_id"]],
                    task["run_job_task"].get("job_parameters", {}),
                )
    assert started == {
        "arrival": ("mainstem", {}),
        "replay": ("mainstem", {"replay": "true"}),
        "rebuild": (
            "mainstem",
            {"rebuild": "{{job.parameters.rebuild}}", "rebuild_from": "{{job.parameters.rebuild_from}}"},
        ),
        "maintenance": ("mainstem", {"maintenance": "true"}),
    }
    assert bundle.jobs["arrival"]["trigger"]["file_arrival"]["url"] == "/Volumes/main/shop_ops/landing/"
    assert bundle.jobs["maintenance"]["schedule"]["quartz_cron_expression"] == "0 30 3 ? * SUN"
    paused = {
        name: job[key]["pause_status"]
        for name, job in bundle.jobs.items()
        for key in ("schedule", "trigger", "continuous")
        if key in job
    }
    assert paused == {
        "mainstem": "UNPAUSED",
        "maintenance": "UNPAUSED",
        "arrival": "PAUSED",
        "continuous": "PAUSED",
    }


def test_a_continuous_run_goes_on_in_rounds_on_a_cluster_and_is_started_again_elsewhere() -> None:
    (prod, cluster) = (
        read_bundle(ROOT, target).jobs["continuous"]["tasks"][0]["python_wheel_task"]
        for target in ("prod", "prod_cluster")
    )
    assert prod["parameters"][0] == "run"
    assert cluster["parameters"] == [*prod["parameters"], "--continuous", "30s"]


def test_the_targets_differ_by_mode_and_compute_alone() -> None:
    modes = {target: read_bundle(ROOT, target).content["mode"] for target in TARGETS}
    assert modes == {
        "dev": "development",
        "prod": "production",
        "dev_cluster": "development",
        "prod_cluster": "production",
    }
    places = {
        target: {"job_cluster_key" in task for _, task in read_bundle(ROOT, target).wheel_tasks}
        for target in TARGETS
    }
    assert places == {"dev": {False}, "prod": {False}, "dev_cluster": {True}, "prod_cluster": {True}}


def test_grants_are_a_matter_of_variables(copy: Path) -> None:
    grants = "[{principal: analysts, privileges: [USE_SCHEMA, SELECT]}]"
    text = (copy / BUNDLE).read_text(encoding="utf-8")
    (copy / BUNDLE).write_text(
        text.replace("    default: []\n", f"    default: {grants}\n", 1), encoding="utf-8"
    )
    bundle = read_bundle(copy, "prod")
    assert problems(bundle) == []
    assert bundle.content["resources"]["schemas"]["gold"]["grants"] == [
        {"principal": "analysts", "privileges": ["USE_SCHEMA", "SELECT"]}
    ]
    assert bundle.content["resources"]["schemas"]["ops"]["grants"] == []


def test_the_page_about_databricks_names_each_variable_target_and_job() -> None:
    page = (ROOT / "docs" / "databricks.md").read_text(encoding="utf-8")
    names = set(re.findall(r"^\| `(\w+)`", page, re.MULTILINE))
    assert names == {*read_bundle(ROOT, "dev").content["variables"], *TARGETS}
    assert set(re.findall(r"^\| \*\*(\w+)\*\*", page, re.MULTILINE)) == read_bundle(ROOT, "dev").jobs.keys()


BROKEN = [
    # misspelt keys, in each of the places where keys are
    (BUNDLE, "include:", "includes:", "includes: unknown key"),
    (BUNDLE, "    build: uv", "    biuld: uv", "artifacts.mainstem.biuld: unknown key"),
    (BUNDLE, "    default: UTC", "    defualt: UTC", "variables.timezone.defualt: unknown key"),
    (BUNDLE, "    run_as:", "    runs_as:", "targets.prod.runs_as: unknown key"),
    (BUNDLE, "    mode: production", "    mode: productive", "neither development nor production"),
    (BUNDLE, "level: CAN_RUN", "level: CAN_RUNN", "unknown level CAN_RUNN"),
    (
        BUNDLE,
        "catalog_name: ${var.catalog}",
        "catalogue_name: ${var.catalog}",
        "Unexpected field 'catalogue_name' for class Schema",
    ),
    (BUNDLE, "      schema_name:", "      shema_name:", "Unexpected field 'shema_name' for class Volume"),
    (BUNDLE, "  volumes:\n", "  volume:\n", "resources.volume: unknown k"),
    (
        BUNDLE,
        "                environment_version: $",
        "                enviroment_version: $",
        "Unexpected field 'enviroment_version'",
    ),
    (
        BUNDLE,
        "data_security_mode: SINGLE_USER",
        "data_security_mode: SINGLE",
        "'SINGLE' is not a valid DataSecurityMode",
    ),
    (JOB, "max_retries", "max_retry", "Unexpected field 'max_retry' for class Task"),
    (JOB, "package_name", "package", "Unexpected field 'package' for class PythonWheelTask"),
    (JOB, "run_if: ALL_DONE", "run_if: ALL_DON", "'ALL_DON' is not a valid RunIf"),
    (JOB, "RUN_DURATION_SECONDS", "RUN_DURATION", "'RUN_DURATION' is not a valid JobsHealthMetric"),
    (JOB, "resources:", "resource:", "pipeline.job.yml: unknown key resource"),
    (JOB, "condition_task", "conditional_task", "Unexpected field 'conditional_task' for class Task"),
    (
        JOB,
        "            concurrency: 1",
        "            concurency: 1",
        "Unexpected field 'concurency' for class ForEachTask",
    ),
    (JOB, "op: NOT_EQUAL", "op: UNEQUAL", "'UNEQUAL' is not a valid ConditionTaskOp"),
    (
        ARRIVAL,
        "file_arrival:",
        "files_arrival:",
        "Unexpected field 'files_arrival' for class TriggerSettings",
    ),
    (ARRIVAL, "pause_status: ${var.arrival_status}", "pause_status: ON", "is not a valid PauseStatus"),
    (CONTINUOUS, "      continuous:\n", "      continous:\n", "Unexpected field 'continous' for class Job"),
    (BUNDLE, "dataset_catalog:", "data_catalog:", "Unexpected field 'data_catalog' for class Dashboard"),
    (
        BUNDLE,
        "    default: []\n",
        "    default: [{principal: all, privileges: [READ]}]\n",
        "'READ' is not a valid Privilege",
    ),
    # references
    (JOB, "${var.config}", "${var.configuration}", "unknown reference ${var.configuration}"),
    (JOB, "${var.notify}", "${var.notify", "a reference that does not end"),
    (
        BUNDLE,
        "${resources.schemas.ops.name}",
        "${resources.schemas.opps.name}",
        "unknown reference ${resources.schemas.opps.name}",
    ),
    (
        BUNDLE,
        "${resources.volumes.files.name}",
        "${resources.volumes.files.nam}",
        "unknown reference ${resources.volumes.files.nam}",
    ),
    (BUNDLE, "${bundle.target}", "${bundle.traget}", "unknown reference ${bundle.traget}"),
    (
        BUNDLE,
        "current_user.userName",
        "current_user.user",
        "unknown reference ${workspace.current_user.user}",
    ),
    (BUNDLE, "    default: shop\n", "    default: ${var.pipeline}\n", "refers to itself"),
    (BUNDLE, '    default: "0 0 * * * ?"\n', "", "unknown reference ${var.schedule}"),
    (
        REBUILD,
        "${resources.jobs.mainstem.id}",
        "${resources.jobs.mainstream.id}",
        "unknown reference ${resources.jobs.mainstream.id}",
    ),
    (BUNDLE, "${var.warehouse_id}", "${var.warehouse}", "unknown reference ${var.warehouse}"),
    (
        BUNDLE,
        "resources:\n  schemas:",
        "  spare:\n    default: x\nresources:\n  schemas:",
        "variables.spare: nothing uses it",
    ),
    # names
    (BUNDLE, '"*/*.job.yml"', '"*/*.jobs.yml"', "names no file"),
    (BUNDLE, "  volumes:\n    files:", "  volumes:\n    mainstem:", "more than one is named mainstem"),
    (
        BUNDLE,
        "      jobs:\n        mainstem:",
        "      jobs:\n        mainsteam:",
        "overrides resources.jobs.mainsteam, which is not there",
    ),
    (
        BUNDLE,
        "{task_key: run, environment_key",
        "{task_key: running, environment_key",
        "mainstem.running: no python_wheel_task",
    ),
    (
        BUNDLE,
        "{task_key: run, job_cluster_key: default",
        "{task_key: run, job_cluster_key: big",
        "mainstem.run: not one place to run",
    ),
    (JOB, "depends_on: [{task_key: validate}]", "depends_on: [{task_key: valid}]", "comes after valid,"),
    (JOB, "max_concurrent_runs: 1", "max_concurrent_runs: 2", "runs may overlap"),
    (
        JOB,
        'replay_asked, outcome: "true"',
        "replay_asked",
        "mainstem.replay: an outcome is what a condition has",
    ),
    (
        JOB,
        "{job.parameters.replay}",
        "{job.parameters.reply}",
        "mainstem.replay_asked: the job has no {{job.parameters.reply}}",
    ),
    (JOB, '- "{{input}}"', '- "{{inputs}}"', "mainstem.rebuild: the job has no {{inputs}}"),
    (
        JOB,
        '"replay", "-c"',
        '"replay", "{{input}}", "-c"',
        "mainstem.replay: {{input}} outside of a for_each_task",
    ),
    (
        JOB,
        '          email_notifications: {on_failure: ["${var.notify}"]}\n',
        "",
        "mainstem.replay: fails in silence",
    ),
    (
        JOB,
        "{task_key: rebuild}, {task_key: maintenance}]",
        "{task_key: rebuild}]",
        "mainstem.maintenance: the run may end well though",
    ),
    (JOB, "        no_alert", "        no_alerts", "Unexpected field 'no_alerts_for_skipped_runs'"),
    (
        REBUILD,
        "{rebuild: ",
        "{rebuilt: ",
        "rebuild.rebuild: starts a job with rebuilt, which is none of its parameters",
    ),
    (
        REBUILD,
        "        - {name: rebuild_from, default: silver}\n",
        "",
        "rebuild.rebuild: the job has no {{job.parameters.rebuild_from}}",
    ),
    (
        REBUILD,
        "${resources.jobs.mainstem.id}",
        "7",
        "rebuild.rebuild: starts 7, which is no job of the bundle",
    ),
    (ARRIVAL, "      queue:\n        enabled: true\n", "", "arrival: no queue"),
    (
        ARRIVAL,
        "      trigger:",
        '      schedule: {quartz_cron_expression: "0 0 * * * ?", timezone_id: UTC}\n      trigger:',
        "more than one of schedule",
    ),
    (
        CONTINUOUS,
        "task_key: continuous\n",
        "task_key: continuous\n          max_retries: 2\n",
        "has no dependencies and no retries",
    ),
    # the dashboard
    (
        BUNDLE,
        "./framework/operations.lvdash.json",
        "./framework/operation.lvdash.json",
        "there is no ./framework/operation.lvdash.json",
    ),
    (
        BUNDLE,
        "dataset_schema: ${resources.schemas.ops.name}",
        "dataset_schema: ops",
        "does not look into main.shop_ops",
    ),
    (DASHBOARD, "FROM runs", "FROM run", "dataset runs: no table run in ops"),
    (DASHBOARD, "FROM runs", "FROM ops.runs", "ops.runs is not looked for in the dashboard's own schema"),
    (
        DASHBOARD,
        "WHERE kind = 'quarantined'",
        "WHERE (kind = 'quarantined'",
        "dataset quarantined: ParseError",
    ),
    (
        DASHBOARD,
        "`tables_stopped`",
        "`stopped_tables`",
        "tile newest-runs: dataset runs gives no stopped_tables",
    ),
    (
        DASHBOARD,
        '"fieldName": "severity"',
        '"fieldName": "severeness"',
        "tile failures-by-hour: shows severeness",
    ),
    (
        DASHBOARD,
        '"datasetName": "verdicts"',
        '"datasetName": "verdict"',
        "tile failures-by-hour: no dataset verdict",
    ),
    (
        DASHBOARD,
        '"name": "seconds-by-run"',
        '"name": "newest-runs"',
        "tile newest-runs: more than one has this name",
    ),
    (DASHBOARD, '"version": 2', '"version": 3', "tile parked-tables: no counter of version 3"),
    (DASHBOARD, '"width": 6,', '"width": 7,', "beyond the page's 6 columns"),
    # entry points, wheels, schedules, commands
    (
        JOB,
        "entry_point: mainstem-job",
        "entry_point: mainstem_job",
        "no entry point mainstem_job in pyproject.toml",
    ),
    (JOB, "entry_point: mainstem-job", "entry_point: mainstem", "which is lost in a job"),
    (
        "pyproject.toml",
        'mainstem-job = "framework.cli:job"\n',
        "",
        "no entry point mainstem-job in pyproject.toml",
    ),
    ("pyproject.toml", "framework.cli:job", "framework.cli:jobs", "there is no framework.cli:jobs"),
    (JOB, "package_name: mainstem", "package_name: main_stem", "the package is mainstem"),
    (BUNDLE, "- ./dist/*.whl", "- ./build/*.whl", "is not where mainstem-"),
    (BUNDLE, "whl: ./dist/*.whl", "whl: ./dist/main_stem*.whl", "is not where mainstem-"),
    (BUNDLE, "uv build --wheel", "python -m build", "not a wheel built by uv"),
    (BUNDLE, "0 0 * * * ?", "0 * * * *", "has 5 fields"),
    (BUNDLE, "0 30 3 ? * SUN", "0 30 3 * * SUN", "maintenance.schedule: '0 30 3 * * SUN' needs `?`"),
    (BUNDLE, "    default: 30s", "    default: 30", "invalid value for '--continuous': '30' is no interval"),
    (BUNDLE, "0 0 * * * ?", "0 61 * * * ?", "'61' is no minutes"),
    (BUNDLE, "    default: UTC", "    default: Mars/Olympus", "no time zone Mars/Olympus"),
    (
        JOB,
        "default: quality}",
        "default: platinum}",
        "run: mainstem run: invalid value for '--through': 'platinum' is unknown",
    ),
    (
        JOB,
        "- run\n              - --without",
        "- land\n              - --without",
        "mainstem: no command 'land'",
    ),
    (JOB, '"-c"', '"--configuration"', "no option --configuration"),
    (BUNDLE, "default: ${workspace.file_path}/", "default: ./", "a job does not reach ./"),
    # what must not be lost, doubled or repeated
    (
        BUNDLE,
        "    ops:\n      lifecycle: *kept\n",
        "    ops:\n",
        "schemas.ops: a changed variable may delete it",
    ),
    (
        BUNDLE,
        "    files:\n      lifecycle: *kept\n",
        "    files:\n",
        "volumes.files: a changed variable may delete it",
    ),
    (
        JOB,
        "max_retries: 0\n          disable_auto_optimization: true\n",
        "max_retries: 0\n",
        "mainstem.quality: serverless compute repeats it",
    ),
]


@pytest.mark.parametrize(("file", "old", "new", "expected"), BROKEN)
def test_a_broken_bundle_is_noticed(copy: Path, file: str, old: str, new: str, expected: str) -> None:
    text = (copy / file).read_text(encoding="utf-8")
    assert old in text
    (copy / file).write_text(text.replace(old, new), encoding="utf-8")
    found: list[str] = []
    for target in TARGETS:  # the first that shows it is enough
        found += problems(read_bundle(copy, target))
        if any(expected in problem for problem in found):
            return
    pytest.fail(f"{expected} is not among {found}")


@pytest.mark.parametrize(
    "expression",
    ["0 0 * * * ?", "0 */15 * * * ?", "0 30 2 ? * MON-FRI", "0 0 6,18 L * ? 2030", "0 0 0 ? 1/3 6#1"],
)
def test_quartz_understands(expression: str) -> None:
    assert quartz_problems(expression) == []


@pytest.mark.parametrize(
    "expression",
    ["", "* * * * *", "0 0 * * * *", "0 0 ? * * ?", "0 0 24 * * ?", "0 0 0 ? * MOO", "0 0/0 * * * ?"],
)
def test_quartz_does_not_understand(expression: str) -> None:
    assert quartz_problems(expression)
