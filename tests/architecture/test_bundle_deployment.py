"""What a deployment of the bundle does to a workspace: schedules, names, and data that stays."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

pytest.importorskip("databricks.bundles", reason="the group `bundle` of pyproject.toml is not installed")

from framework.cli.parser import read_options
from framework.config.model import load_config
from framework.pipeline.session import option_models
from tests.architecture.bundle import BUNDLE, VALUES, Bundle, loaded, read_bundle, target_names
from tests.architecture.bundle_checks import problems

ROOT = Path(__file__).parents[2]
TARGETS = target_names(ROOT)
JOB_FILES = sorted(path.relative_to(ROOT).as_posix() for path in ROOT.glob("*/*.job.yml"))
PAGE = (ROOT / "docs" / "databricks.md").read_text(encoding="utf-8")


def pause_statuses(bundle: Bundle) -> dict[str, str]:
    return {
        name: job[key]["pause_status"]
        for name, job in bundle.jobs.items()
        for key in ("schedule", "trigger", "continuous")
        if key in job
    }


def settings_of(task: dict[str, Any]) -> dict[str, str]:
    """What a task's command sets with `--env`."""
    words = task["python_wheel_task"]["parameters"]
    return dict(pair.split("=", 1) for pair in words[words.index("--env") + 1].split(","))


def with_target(folder: Path, target: str) -> Path:
    """A copy of the bundle's files in `folder`, with one more target."""
    for file in (ROOT / BUNDLE, ROOT / "pyproject.toml", *ROOT.glob("*/*.job.yml"), *ROOT.glob("*/*.json")):
        copied = folder / file.relative_to(ROOT)
        copied.parent.mkdir(exist_ok=True)
        shutil.copyfile(file, copied)
    with (folder / BUNDLE).open("a", encoding="utf-8") as bundle:
        bundle.write(f"\n{target}")
    return folder


def mappings(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        yield value
        for item in value.values():
            yield from mappings(item)
    elif isinstance(value, list):
        for item in value:
            yield from mappings(item)


@pytest.mark.parametrize("target", ["dev", "dev_cluster"])
def test_nothing_starts_by_itself_in_development(target: str) -> None:
    # the command line pauses only what has no status of its own
    assert set(pause_statuses(read_bundle(ROOT, target)).values()) == {"PAUSED"}


@pytest.mark.parametrize("target", ["prod", "prod_cluster"])
def test_the_pipeline_and_its_maintenance_start_by_themselves_in_production(target: str) -> None:
    started = {
        name for name, status in pause_statuses(read_bundle(ROOT, target)).items() if status == "UNPAUSED"
    }
    assert started == {"mainstem", "maintenance"}


@pytest.mark.parametrize("target", TARGETS)
def test_each_task_reads_the_configuration_that_the_bundle_uploads(target: str) -> None:
    bundle = read_bundle(ROOT, target)
    uploaded = f"{bundle.content['variables']['config']['default']}"
    assert uploaded.startswith("/Workspace/")
    assert uploaded.endswith("/files/pipelines/shop.yml")
    assert (ROOT / "pipelines" / "shop.yml").is_file()
    for _, task in bundle.wheel_tasks:
        words = task["python_wheel_task"]["parameters"]
        assert words[words.index("-c") + 1] == uploaded, task["task_key"]


@pytest.mark.parametrize("target", TARGETS)
def test_the_configuration_writes_into_the_schemas_and_volumes_of_the_bundle(target: str) -> None:
    bundle = read_bundle(ROOT, target)
    schemas, volumes = bundle.content["resources"]["schemas"], bundle.content["resources"]["volumes"]
    for _, task in bundle.wheel_tasks:
        config = load_config(
            ROOT / "pipelines" / "shop.yml", formats=option_models(), environ=settings_of(task)
        )
        assert config.pipeline == "shop"
        lakehouse = config.model_dump()["lakehouse"]
        for name, schema in schemas.items():
            deployed = (schema["catalog_name"], schema["name"])
            assert deployed == (lakehouse["catalog"], f"{lakehouse['schema_prefix']}{name}")
        place = f"/Volumes/main/{schemas['ops']['name']}"
        assert config.checkpoints == f"{place}/{volumes['files']['name']}/checkpoints"
        assert config.sources["orders"].files == f"{place}/{volumes['landing']['name']}/orders"


def test_the_schemas_of_development_begin_with_the_name_of_the_deployer() -> None:
    names = {
        target: read_bundle(ROOT, target).content["resources"]["schemas"]["gold"]["name"]
        for target in ("dev", "prod")
    }
    assert names == {"dev": "dev_someone_shop_gold", "prod": "shop_gold"}


def test_what_only_the_user_knows_has_no_default() -> None:
    def missing(target: str) -> set[str]:
        bundle = read_bundle(ROOT, target, {})
        return {name for each in bundle.problems for name in re.findall(r"\$\{var\.(\w+)\}$", each)}

    assert missing("dev") == {"catalog", "warehouse_id"}
    assert missing("prod") == {"catalog", "warehouse_id", "service_principal", "notify"} == VALUES.keys()


def test_no_variable_is_looked_up_in_the_workspace() -> None:
    variables = loaded(ROOT / BUNDLE)["variables"]
    assert [name for name, variable in variables.items() if "lookup" in variable] == []


def test_mail_goes_to_an_address_and_in_development_to_the_user_who_deploys() -> None:
    told = {
        target: {
            address
            for mapping in mappings(read_bundle(ROOT, target).jobs)
            for event in ("on_failure", "on_duration_warning_threshold_exceeded")
            for address in mapping.get(event, ())
        }
        for target in ("dev", "prod")
    }
    assert told == {"dev": {"someone@example.com"}, "prod": {"data-team@example.com"}}


def test_a_second_pipeline_is_a_target_of_its_own_and_shares_nothing_with_the_first(tmp_path: Path) -> None:
    (target,) = re.findall(r"```yaml\n(  crm:\n.*?)```", PAGE, re.DOTALL)
    root = with_target(tmp_path, target)
    crm, shop = read_bundle(root, "crm"), read_bundle(root, "prod")
    assert problems(crm) == []

    def names(bundle: Bundle) -> set[str]:
        resources = bundle.content["resources"]
        return {
            bundle.content["workspace"]["root_path"],
            *(job["name"] for job in bundle.jobs.values()),
            *(schema["name"] for schema in resources["schemas"].values()),
            *(dashboard["display_name"] for dashboard in resources["dashboards"].values()),
            *(bundle.content["variables"][name]["default"] for name in ("config", "settings")),
        }

    assert names(crm) & names(shop) == set()
    assert len(names(crm)) == len(names(shop)) == 14


@pytest.mark.parametrize("file", [BUNDLE, *JOB_FILES])
def test_each_loop_names_what_it_goes_over_as_the_schema_of_bundles_demands(file: str) -> None:
    loops = [part["for_each_task"] for part in mappings(loaded(ROOT / file)) if "for_each_task" in part]
    assert [loop for loop in loops if not {"inputs", "task"} <= loop.keys()] == []


def test_costs_are_by_pipeline_and_policies_are_variables() -> None:
    for target in TARGETS:
        jobs = read_bundle(ROOT, target).jobs
        assert {name for name, job in jobs.items() if job["tags"] != {"pipeline": "shop"}} == set(), target
    serverless = read_bundle(ROOT, "prod")
    assert "budget_policy_id" in serverless.jobs["mainstem"]
    assert serverless.jobs["mainstem"]["performance_target"] == "PERFORMANCE_OPTIMIZED"
    (cluster,) = read_bundle(ROOT, "prod_cluster").jobs["mainstem"]["job_clusters"]
    assert cluster["new_cluster"]["autoscale"] == {"min_workers": 1, "max_workers": 2}
    assert cluster["new_cluster"]["custom_tags"] == {"pipeline": "shop"}
    assert "policy_id" in cluster["new_cluster"]


def test_the_bundle_names_the_version_of_the_command_line_that_it_needs() -> None:
    needed = loaded(ROOT / BUNDLE)["bundle"]["databricks_cli_version"]
    version = needed.removeprefix(">= ")
    assert re.fullmatch(r"\d+\.\d+\.\d+", version)
    assert f"({version} or newer)" in PAGE


def test_a_changed_wheel_gets_a_version_of_its_own() -> None:
    assert [each["dynamic_version"] for each in loaded(ROOT / BUNDLE)["artifacts"].values()] == [True]


def test_the_values_that_the_page_sets_are_variables_and_all_that_is_needed() -> None:
    first, production = (json.loads(block) for block in re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)[:2])
    assert first.keys() == {"catalog", "warehouse_id"}
    assert production.keys() == VALUES.keys() <= loaded(ROOT / BUNDLE)["variables"].keys()


def test_the_page_shows_the_configuration_of_the_repository_and_checks_it_with_a_command_that_works() -> None:
    (shown,) = re.findall(r"```yaml\n(pipeline:.*?)```", PAGE, re.DOTALL)
    assert yaml.safe_load(shown) == loaded(ROOT / "pipelines" / "shop.yml")
    (command,) = re.findall(r"^mainstem (validate .*)$", PAGE, re.MULTILINE)
    options = read_options(shlex.split(command))
    assert not isinstance(options, int)
    config = load_config(ROOT / options.config, formats=option_models(), environ=dict(options.env))
    production = settings_of(next(read_bundle(ROOT, "prod").wheel_tasks)[1])
    assert config.pipeline == "shop"
    assert dict(options.env) == production
