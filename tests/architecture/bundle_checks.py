"""What must hold for a bundle before it is deployed; each check gives the problems that it finds."""

from __future__ import annotations

import fnmatch
import importlib
import re
import tomllib
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import PurePosixPath
from typing import Any
from zoneinfo import available_timezones

from databricks.bundles.dashboards import Dashboard
from databricks.bundles.jobs import Job
from databricks.bundles.schemas import Schema
from databricks.bundles.volumes import Volume

from framework.cli.options import Options
from framework.cli.parser import read_options
from framework.errors import ConfigurationError
from tests.architecture.bundle import BUNDLE, Bundle, computed_id, loaded
from tests.architecture.dashboard_checks import dashboard_problems

_MODELS: dict[str, Any] = {"jobs": Job, "schemas": Schema, "volumes": Volume, "dashboards": Dashboard}
_RESOURCES: dict[str, Any] = dict.fromkeys(_MODELS, dict)
_PERMISSION = {"level": str, "group_name": str, "service_principal_name": str, "user_name": str}
_TARGET = {
    "mode": str,
    "default": bool,
    "variables": {"*": str},
    "workspace": {"root_path": str},
    "run_as": {"service_principal_name": str},
    "permissions": [_PERMISSION],
    "resources": _RESOURCES,
}
# The part of a bundle that databricks-bundles does not know; "*" stands for names of our own.
_SHAPE: dict[str, Any] = {
    "bundle": {"name": str, "databricks_cli_version": str},
    "workspace": {"root_path": str},
    "include": [str],
    "sync": {"paths": [str]},
    "artifacts": {"*": {"type": str, "build": str, "path": str, "dynamic_version": bool}},
    "variables": {"*": {"description": str, "default": (str, int, list, dict), "type": str}},
    "resources": _RESOURCES,
    "targets": {"*": _TARGET},
}

# What Databricks fills in when a run starts, as {{job.parameters.name}}.
_DYNAMIC = re.compile(r"\{\{\s*([\w.]+)\s*\}\}")

_MONTHS = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
_DAYS = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")
_FIELDS = (
    ("seconds", 0, 59, ()),
    ("minutes", 0, 59, ()),
    ("hours", 0, 23, ()),
    ("day of month", 1, 31, ()),
    ("month", 1, 12, _MONTHS),
    ("day of week", 1, 7, _DAYS),
    ("year", 1970, 2099, ()),
)


def problems(bundle: Bundle) -> list[str]:
    """All that is wrong with a bundle under one target."""
    outside = (reference_problems, shape_problems, resource_problems, dashboards_problems)
    inside = (
        job_problems,
        task_problems,
        entry_point_problems,
        wheel_problems,
        schedule_problems,
        command_problems,
        hand_over_problems,
    )
    return [problem for check in (*outside, *inside) for problem in check(bundle)]


def reference_problems(bundle: Bundle) -> Iterator[str]:
    """Includes without files, duplicate names, references to nothing, unused variables."""
    yield from bundle.problems
    declared = bundle.content["variables"]
    whole = (bundle.root / BUNDLE).read_text(encoding="utf-8")
    for name in declared.keys() - bundle.used:
        if f"${{var.{name}}}" not in whole:
            yield f"variables.{name}: nothing uses it"


def shape_problems(bundle: Bundle) -> Iterator[str]:
    """Misspelt keys and values of wrong kinds outside the resources."""
    content = loaded(bundle.root / BUNDLE)
    yield from _misfits(content, _SHAPE, "")
    targets = content["targets"]
    if [name for name, target in targets.items() if target.get("default")] != ["dev"]:
        yield "targets: dev is not the one default"
    target = targets[bundle.target]
    if target.get("mode") not in ("development", "production"):
        yield f"targets.{bundle.target}.mode: neither development nor production"
    if target.get("mode") == "production":
        for key in {"workspace", "run_as", "permissions"} - target.keys():
            yield f"targets.{bundle.target}: production without {key}"
    for permission in bundle.content.get("permissions", ()):
        if permission.get("level") not in ("CAN_VIEW", "CAN_RUN", "CAN_MANAGE"):
            yield f"targets.{bundle.target}.permissions: unknown level {permission.get('level')}"
        if len(permission.keys() - {"level"}) != 1:
            yield f"targets.{bundle.target}.permissions: not for one of group, person and service principal"


def _misfits(value: Any, shape: Any, at: str) -> Iterator[str]:
    if isinstance(shape, dict) and isinstance(value, dict):
        for key, item in value.items():
            inner = shape.get(key, shape.get("*"))
            if inner is None:
                yield f"{at}{key}: unknown key"
            else:
                yield from _misfits(item, inner, f"{at}{key}.")
    elif isinstance(shape, list) and isinstance(value, list):
        for number, item in enumerate(value):
            yield from _misfits(item, shape[0], f"{at}{number}.")
    elif isinstance(shape, dict | list) or not isinstance(value, shape):
        yield f"{at.rstrip('.')}: {value!r} is of a wrong kind"


def resource_problems(bundle: Bundle) -> Iterator[str]:
    """Misspelt keys, unknown words and missing fields in the resources."""
    for kind, entries in bundle.content["resources"].items():
        for name, entry in entries.items():
            if kind not in _MODELS:
                yield f"resources.{kind}: unknown kind"
                continue
            try:
                _MODELS[kind].from_dict(entry)
            except (ValueError, TypeError) as error:
                yield f"resources.{kind}.{name}: {error}"
            if kind in ("schemas", "volumes") and not entry.get("lifecycle", {}).get("prevent_destroy"):
                yield f"resources.{kind}.{name}: a changed variable may delete it with its data"


def dashboards_problems(bundle: Bundle) -> Iterator[str]:
    """Dashboards whose file is missing or invalid, or that do not read the schema `ops`."""
    schema = bundle.content["resources"]["schemas"]["ops"]
    for name, dashboard in bundle.content["resources"].get("dashboards", {}).items():
        place = (schema.get("catalog_name"), schema.get("name"))
        if (dashboard.get("dataset_catalog"), dashboard.get("dataset_schema")) != place:
            yield f"{name}: does not look into {'.'.join(map(str, place))}"
        if not dashboard.get("warehouse_id"):
            yield f"{name}: no warehouse_id"
        file = bundle.root / dashboard["file_path"]
        if not file.is_file():
            yield f"{name}: there is no {dashboard['file_path']}"
        else:
            yield from (
                f"{file.name}: {problem}" for problem in dashboard_problems(file.read_text(encoding="utf-8"))
            )


def job_problems(bundle: Bundle) -> Iterator[str]:
    """Jobs that may overlap, fail in silence, or start in a way that the platform does not allow."""
    for name, job in bundle.jobs.items():
        is_continuous = "continuous" in job
        needed = {"name", "description", "email_notifications"} | (set() if is_continuous else {"queue"})
        if any("python_wheel_task" in task for task in job["tasks"]) and not is_continuous:
            needed |= {"health", "timeout_seconds"}
        yield from (f"{name}: no {key}" for key in sorted(needed - job.keys()))
        if job.get("max_concurrent_runs") != 1:
            yield f"{name}: runs may overlap"
        if len(job.keys() & {"schedule", "trigger", "continuous"}) > 1:
            yield f"{name}: more than one of schedule, trigger and continuous"
        if is_continuous and any(task.keys() & {"depends_on", "max_retries"} for task in job["tasks"]):
            yield f"{name}: a continuous job has no dependencies and no retries"
        leaves = job["tasks"][-1:]
        before = {earlier["task_key"] for task in job["tasks"] for earlier in task.get("depends_on", ())}
        for task in job["tasks"]:
            if task["task_key"] not in before and task not in leaves:
                yield (
                    f"{name}.{task['task_key']}: the run may end well though the last task does not follow it"
                )
            if "outcome" in str(task.get("depends_on")) and "on_failure" not in task.get(
                "email_notifications", {}
            ):
                yield f"{name}.{task['task_key']}: fails in silence, for the run ends as its last task does"


def task_problems(bundle: Bundle) -> Iterator[str]:
    """Tasks without work, without one place to run, or after a task that is not before them."""
    for name, job in bundle.jobs.items():
        environments = {entry["environment_key"] for entry in job.get("environments", ())}
        clusters = {entry["job_cluster_key"] for entry in job.get("job_clusters", ())}
        before: dict[str, Any] = {}
        for task in job["tasks"]:
            at = f"{name}.{task['task_key']}"
            for earlier in task.get("depends_on", ()):
                if earlier["task_key"] not in before:
                    yield f"{at}: comes after {earlier['task_key']}, which is not before it"
                elif ("outcome" in earlier) != ("condition_task" in before[earlier["task_key"]]):
                    yield f"{at}: an outcome is what a condition has, and only that"
            before[task["task_key"]] = task
        for task in (work for owner, work in bundle.wheel_tasks if owner is job):
            at = f"{name}.{task['task_key']}"
            if "python_wheel_task" not in task:
                yield f"{at}: no python_wheel_task"
            places = [task[key] for key in ("environment_key", "job_cluster_key") if key in task]
            if len(places) != 1 or places[0] not in (environments if "environment_key" in task else clusters):
                yield f"{at}: not one place to run that the job has"
            for key in (
                () if "continuous" in job else sorted({"max_retries", "timeout_seconds"} - task.keys())
            ):
                yield f"{at}: no {key}"
            if task.get("disable_auto_optimization") is not True:
                yield f"{at}: serverless compute repeats it of its own accord"


def entry_point_problems(bundle: Bundle) -> Iterator[str]:
    """Wheel tasks of another package, or by a name that the package does not have or that leads nowhere."""
    project = _project(bundle)
    for _, task in bundle.wheel_tasks:
        work = task.get("python_wheel_task", {})
        if work.get("package_name") != project["name"]:
            yield f"{task['task_key']}: the package is {project['name']}"
        entry = project["scripts"].get(work.get("entry_point"))
        if entry is None:
            yield f"{task['task_key']}: no entry point {work.get('entry_point')} in pyproject.toml"
            continue
        module, _, function = entry.partition(":")
        if not callable(getattr(importlib.import_module(module), function, None)):
            yield f"{task['task_key']}: there is no {entry}"
        if entry not in ("framework.cli:job", "framework.cli:step"):
            yield f"{task['task_key']}: {entry} returns an exit code, which is lost in a job"


def wheel_problems(bundle: Bundle) -> Iterator[str]:
    """Wheels that the build does not make, and tasks without one."""
    built = wheel_name(bundle)
    folders = []
    for name, artifact in bundle.content["artifacts"].items():
        if artifact.get("type") != "whl" or not artifact.get("build", "").startswith("uv build --wheel"):
            yield f"artifacts.{name}: not a wheel built by uv"
        folders.append(PurePosixPath(artifact["path"]) / "dist")
    for job, task in bundle.wheel_tasks:
        environments = {
            entry["environment_key"]: entry["spec"].get("dependencies", [])
            for entry in job.get("environments", ())
        }
        libraries = [library["whl"] for library in task.get("libraries", ()) if "whl" in library]
        packages = environments.get(task.get("environment_key"), []) + libraries
        wheels = [package for package in packages if package.endswith(".whl")]
        if not wheels:
            yield f"{task['task_key']}: has no wheel"
        for wheel in map(PurePosixPath, wheels):
            if wheel.parent not in folders or not fnmatch.fnmatchcase(built, wheel.name):
                yield f"{task['task_key']}: {wheel} is not where {built} is built"


def wheel_name(bundle: Bundle) -> str:
    """The file name of the project's wheel."""
    project = _project(bundle)
    return f"{project['name'].replace('-', '_')}-{project['version']}-py3-none-any.whl"


def schedule_problems(bundle: Bundle) -> Iterator[str]:
    """Schedules that Quartz does not understand, and zones that there are not."""
    for name, job in bundle.jobs.items():
        schedule = job.get("schedule")
        if schedule is None:
            continue
        for problem in quartz_problems(str(schedule.get("quartz_cron_expression"))):
            yield f"{name}.schedule: {problem}"
        if schedule.get("timezone_id") not in available_timezones():
            yield f"{name}.schedule: no time zone {schedule.get('timezone_id')}"


def quartz_problems(expression: str) -> list[str]:
    """What is wrong with a Quartz cron expression: six or seven fields, and `?` for one of the two days."""
    parts = expression.upper().split()
    if len(parts) not in (6, 7):
        return [f"'{expression}' has {len(parts)} fields, and not six or seven"]
    found = []
    if (parts[3] == "?") == (parts[5] == "?"):
        found.append(f"'{expression}' needs `?` for one of day of month and day of week")
    for part, (name, least, most, words) in zip(parts, _FIELDS, strict=False):
        if not all(_is_quartz(item, least, most, words) for item in part.split(",")) and not (
            part == "?" and name.startswith("day")
        ):
            found.append(f"'{part}' is no {name}")
    return found


def _is_quartz(item: str, least: int, most: int, words: tuple[str, ...]) -> bool:
    if most == 31 and re.fullmatch(r"L|LW|L-\d+|([1-9]|[12]\d|3[01])W", item):
        return True
    if words == _DAYS and re.fullmatch(r"L|[1-7]L|[1-7]#[1-5]", item):
        return True
    match = re.fullmatch(r"(\*|(\w+)(?:-(\w+))?)(?:/(\d+))?", item)
    if match is None or (match[4] is not None and not 0 < int(match[4]) <= most):
        return False
    bounds = [
        words.index(word) + 1 if word in words else int(word) if word.isdigit() else -1
        for word in match.group(2, 3)
        if word
    ]
    return all(least <= bound <= most for bound in bounds)


def command_problems(bundle: Bundle) -> Iterator[str]:
    """Parameters that the command line does not take, and configurations that a job cannot read."""
    for job, task in bundle.wheel_tasks:
        if "python_wheel_task" not in task:
            continue
        try:
            options = _options(tuple(arguments(job, task)))
        except ConfigurationError as error:
            yield f"{task['task_key']}: {error.where}: {error.found}"
            continue
        except KeyError as missing:
            yield f"{task['task_key']}: no {missing}"
            continue
        if isinstance(options, int):
            yield f"{task['task_key']}: asks for a help, and does nothing"
        elif not options.config.startswith(("/Volumes/", "/Workspace/")):
            yield f"{task['task_key']}: a job does not reach {options.config}"


@lru_cache
def _options(given: tuple[str, ...]) -> Options | int:
    return read_options(given)


def arguments(job: Mapping[str, Any], task: Mapping[str, Any], table: str = "shop.orders") -> list[str]:
    """A task's arguments as Databricks hands them over, with the job's parameters at their defaults.

    Raises KeyError for a reference to a parameter that the job does not have.
    """
    values = {f"job.parameters.{each['name']}": each["default"] for each in job.get("parameters", ())} | {
        "input": table
    }
    return [
        _DYNAMIC.sub(lambda found: str(values[found[1]]), str(each))
        for each in task["python_wheel_task"]["parameters"]
    ]


def hand_over_problems(bundle: Bundle) -> Iterator[str]:
    """Parameters that other jobs do not have, and references to missing parameters of the own job."""
    jobs = {computed_id(bundle.content, "jobs", name): job for name, job in bundle.jobs.items()}
    for name, job in bundle.jobs.items():
        own = {each["name"] for each in job.get("parameters", ())}
        for task in job["tasks"]:
            at = f"{name}.{task['task_key']}"
            for reference in _DYNAMIC.findall(str(task)):
                if reference != "input" and reference.removeprefix("job.parameters.") not in own:
                    yield f"{at}: the job has no {{{{{reference}}}}}"
                if reference == "input" and "for_each_task" not in task:
                    yield f"{at}: {{{{input}}}} outside of a for_each_task"
            started = task.get("run_job_task")
            if started is not None and started["job_id"] not in jobs:
                yield f"{at}: starts {started['job_id']}, which is no job of the bundle"
            elif started is not None:
                known = {each["name"] for each in jobs[started["job_id"]].get("parameters", ())}
                for key in started.get("job_parameters", {}).keys() - known:
                    yield f"{at}: starts a job with {key}, which is none of its parameters"


def _project(bundle: Bundle) -> dict[str, Any]:
    return tomllib.loads((bundle.root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
