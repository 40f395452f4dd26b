"""Reads a Databricks bundle without a workspace: resolves includes, targets and references."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

BUNDLE = "databricks.yml"

# Where lists are merged by a key of their entries, and not put one behind the other.
_KEYED = {"tasks": "task_key", "job_clusters": "job_cluster_key", "environments": "environment_key"}
_REFERENCE = re.compile(r"\$\{([^{}]*)\}")
_WORKSPACE = {
    "workspace.host": "https://example.cloud.databricks.com",
    "workspace.file_path": "/Workspace/Users/someone@example.com/.bundle/files",
    "workspace.root_path": "/Workspace/Users/someone@example.com/.bundle",
    "workspace.current_user.userName": "someone@example.com",
    "workspace.current_user.short_name": "someone",
}
VALUES = {
    "catalog": "main",
    "warehouse_id": "1234567890abcdef",
    "service_principal": "11111111-2222-3333-4444-555555555555",
    "notify": "data-team@example.com",
}
"""The variables that the bundle does not deploy to production without."""
_COMPUTED = {"jobs": {"id"}, "schemas": {"id"}, "volumes": {"id"}}


@dataclass(frozen=True, slots=True)
class Bundle:
    """A bundle for one target: `content` with resolved references, and the `problems` of reading it."""

    root: Path
    target: str
    content: dict[str, Any]
    problems: tuple[str, ...]
    used: frozenset[str]
    """The variables that something refers to."""

    @property
    def jobs(self) -> dict[str, dict[str, Any]]:
        return self.content["resources"]["jobs"]

    @property
    def wheel_tasks(self) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
        """The tasks that run our own code, each with its job; those that a `for_each_task` repeats, too."""
        for job in self.jobs.values():
            for task in job.get("tasks", ()):
                work = task.get("for_each_task", {}).get("task", task)
                if "condition_task" not in work and "run_job_task" not in work:
                    yield job, work


def target_names(root: Path) -> list[str]:
    """The names of the bundle's targets."""
    return list(loaded(root / BUNDLE)["targets"])


def read_bundle(root: Path, target: str, values: Mapping[str, str] | None = None) -> Bundle:
    """The bundle in `root` as it would be deployed to `target`, with `values` where there is no default."""
    problems: list[str] = []
    whole = _with_included(root, problems)
    for kind, entries in whole["targets"][target].get("resources", {}).items():
        for name in entries.keys() - whole["resources"].get(kind, {}).keys():
            problems.append(f"targets.{target}: overrides resources.{kind}.{name}, which is not there")
    settings = {
        key: value for key, value in whole["targets"][target].items() if key not in ("default", "variables")
    }
    for name, value in whole["targets"][target].get("variables", {}).items():
        whole["variables"].setdefault(name, {})["default"] = (
            value["default"] if isinstance(value, dict) else value
        )
    for name, value in (VALUES if values is None else values).items():
        whole["variables"].setdefault(name, {}).setdefault("default", value)
    if settings.get("mode") == "development":  # as the command line does
        for schema in whole["resources"]["schemas"].values():
            schema["name"] = f"dev_{_WORKSPACE['workspace.current_user.short_name']}_{schema['name']}"
    resolution = _Resolution(merged(whole, settings), target, problems)
    content = {
        key: resolution.resolved(value, key) for key, value in resolution.content.items() if key != "targets"
    }
    return Bundle(root, target, content, tuple(problems), frozenset(resolution.used))


def merged(base: Any, over: Any, key: str = "") -> Any:
    """What a target makes of a part of the bundle."""
    if isinstance(base, dict) and isinstance(over, dict):
        return {
            **base,
            **{
                name: merged(base[name], value, name) if name in base else value
                for name, value in over.items()
            },
        }
    if isinstance(base, list) and isinstance(over, list):
        if key not in _KEYED:
            return base + over
        entries = {entry[_KEYED[key]]: entry for entry in base}
        for entry in over:
            name = entry[_KEYED[key]]
            entries[name] = merged(entries[name], entry) if name in entries else entry
        return list(entries.values())
    return over


def computed_id(content: dict[str, Any], kind: str, name: str) -> int | str:
    """What stands here for the id that a resource gets when it is deployed: jobs have numbers."""
    return 1_000 + list(content["resources"]["jobs"]).index(name) if kind == "jobs" else f"{name}-id"


def _with_included(root: Path, problems: list[str]) -> dict[str, Any]:
    whole = loaded(root / BUNDLE)
    places = {
        name: [f"{kind} in {BUNDLE}"]
        for kind, entries in whole.get("resources", {}).items()
        for name in entries
    }
    for pattern in whole.get("include", ()):
        files = sorted(root.glob(pattern))
        if not files:
            problems.append(f"include: {pattern} names no file")
        for file in files:
            part = _placed(loaded(file), os.path.relpath(file.parent, root))
            problems += [f"{file.name}: unknown key {key}" for key in part.keys() - {"resources"}]
            for kind, entries in part.get("resources", {}).items():
                for name in entries:
                    places.setdefault(name, []).append(f"{kind} in {file.name}")
            whole["resources"] = merged(whole.get("resources", {}), part.get("resources", {}))
    problems += [
        f"resources: more than one is named {name}: {', '.join(found)}"
        for name, found in places.items()
        if len(found) > 1
    ]
    return whole


def _placed(value: Any, folder: str) -> Any:
    """The part of a file with its relative paths counted from the bundle's root."""
    if isinstance(value, dict):
        return {key: _placed(item, folder) for key, item in value.items()}
    if isinstance(value, list):
        return [_placed(item, folder) for item in value]
    if isinstance(value, str) and value.startswith(("./", "../")):
        return "./" + os.path.normpath(os.path.join(folder, value))
    return value


def loaded(file: Path) -> dict[str, Any]:
    return yaml.load(file.read_text(encoding="utf-8"), Loader=yaml.CSafeLoader)


@dataclass(slots=True)
class _Resolution:
    content: dict[str, Any]
    target: str
    problems: list[str]
    used: set[str] = field(default_factory=set)

    def resolved(self, value: Any, at: str, inside: tuple[str, ...] = ()) -> Any:
        if isinstance(value, dict):
            return {key: self.resolved(item, f"{at}.{key}", inside) for key, item in value.items()}
        if isinstance(value, list):
            return [self.resolved(item, f"{at}[{number}]", inside) for number, item in enumerate(value)]
        if not isinstance(value, str):
            return value
        whole = _REFERENCE.fullmatch(value)
        if whole:
            return self._value(whole[1], at, inside)
        text = _REFERENCE.sub(lambda match: str(self._value(match[1], at, inside)), value)
        if "${" in text.replace("${?}", ""):
            self.problems.append(f"{at}: a reference that does not end: {value}")
        return text

    def _value(self, reference: str, at: str, inside: tuple[str, ...]) -> Any:
        if reference in inside:
            self.problems.append(f"{at}: ${{{reference}}} refers to itself")
            return "${?}"
        found, value = self._found(reference)
        if not found:
            self.problems.append(f"{at}: unknown reference ${{{reference}}}")
            return "${?}"
        return self.resolved(value, at, (*inside, reference))

    def _found(self, reference: str) -> tuple[bool, Any]:
        kind, *names = reference.split(".")
        if kind == "var" and len(names) == 1:
            self.used.add(names[0])
            variable = self.content["variables"].get(names[0], {})
            if "lookup" in variable:
                return True, "1234567890abcdef"
            return "default" in variable, variable.get("default")
        if reference == "bundle.target":
            return True, self.target
        if kind == "resources" and len(names) == 3 and names[1] in self.content[kind].get(names[0], {}):
            if names[2] in _COMPUTED.get(names[0], ()):
                return True, computed_id(self.content, names[0], names[1])
        elif reference in _WORKSPACE:
            return True, _WORKSPACE[reference]
        elif kind not in ("bundle", "workspace"):
            return False, None
        value: Any = self.content
        for name in (kind, *names):
            if not isinstance(value, dict) or name not in value:
                return False, None
            value = value[name]
        return not isinstance(value, dict | list), value
