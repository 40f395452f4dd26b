"""The Databricks command line deploys the bundle into a workspace in memory.

MAINSTEM_WORKSPACE names a program that serves such a workspace, prints its address as its first line, and
goes on until it is stopped. The source of the command line has one for its own tests (`libs/testserver`).
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
VALUES = {
    "catalog": "main",
    "warehouse_id": "12ab",
    "service_principal": "11111111-2222-3333-4444-555555555555",
    "notify": "data-team@example.com",
}


@pytest.fixture(scope="module")
def program() -> str:
    found = shutil.which(os.environ.get("MAINSTEM_DATABRICKS", "databricks"))
    if "MAINSTEM_BUNDLE" not in os.environ or "MAINSTEM_WORKSPACE" not in os.environ:
        pytest.skip("deploys into a workspace in memory: make test-bundle, and MAINSTEM_WORKSPACE names it")
    if found is None:
        pytest.skip("no Databricks command line: install it, or name it with MAINSTEM_DATABRICKS")
    if shutil.which("uv") is None:
        pytest.skip("no `uv`, which builds the wheel of the bundle")
    return found


@pytest.fixture
def address(program: str) -> Iterator[str]:
    """The address of a workspace that is empty."""
    server = subprocess.Popen([os.environ["MAINSTEM_WORKSPACE"]], stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    yield server.stdout.readline().strip()
    server.kill()
    server.wait()


class Clone:
    """A fresh clone, and the command line in it."""

    def __init__(self, folder: Path, program: str, address: str) -> None:
        listed = subprocess.run(
            ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
        ).stdout
        for name in listed.rstrip("\0").split("\0"):
            if (ROOT / name).is_file():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(ROOT / name, folder / name)
        self.folder, self.program, self.address = folder, program, address

    def ask(self, *words: str, **values: str) -> subprocess.CompletedProcess[str]:
        inherited = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("DATABRICKS_", "BUNDLE_VAR_", "ARM_", "GOOGLE_"))
        }
        own = {
            "DATABRICKS_HOST": self.address,
            "DATABRICKS_TOKEN": "none",
            "DATABRICKS_BUNDLE_ENGINE": "direct",
            "DATABRICKS_CLI_DISABLE_TELEMETRY": "1",
            "NO_PROXY": "127.0.0.1",
            "no_proxy": "127.0.0.1",
        }
        return subprocess.run(
            [self.program, *words],
            cwd=self.folder,
            env=inherited | own | {f"BUNDLE_VAR_{name}": text for name, text in (VALUES | values).items()},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )

    def deploy(self, target: str) -> str:
        """The last line of a deployment: what became of the resources."""
        done = self.ask("bundle", "deploy", "-t", target)
        assert done.returncode == 0, done.stderr
        (line,) = (line for line in (done.stdout + done.stderr).splitlines() if line.startswith("Resources:"))
        return line.removeprefix("Resources: ")


@pytest.fixture
def clone(tmp_path: Path, program: str, address: str) -> Clone:
    return Clone(tmp_path / "clone", program, address)


@pytest.mark.parametrize(("target", "resources"), [("dev", 13), ("prod", 20), ("prod_cluster", 20)])
def test_a_deployment_changes_what_has_changed_and_never_deletes_data(
    clone: Clone, target: str, resources: int
) -> None:
    assert clone.deploy(target) == f"{resources} created, 0 changed, 0 deleted, 0 unchanged"
    assert clone.deploy(target) == f"0 created, 0 changed, 0 deleted, {resources} unchanged"

    with (clone.folder / "framework" / "naming.py").open("a", encoding="utf-8") as module:
        module.write("\n# changed\n")
    assert clone.deploy(target) == f"0 created, 2 changed, 0 deleted, {resources - 2} unchanged"

    for name, value in (("schema_prefix", "other_"), ("catalog", "other")):
        refused = clone.ask("bundle", "deploy", "-t", target, **{name: value})
        assert refused.returncode != 0, name
        assert "prevent_destroy" in refused.stderr
    refused = clone.ask("bundle", "destroy", "-t", target, "--auto-approve")
    assert refused.returncode != 0
    assert "prevent_destroy" in refused.stderr
    assert clone.deploy(target) == f"0 created, 0 changed, 0 deleted, {resources} unchanged"


def test_the_workspace_gets_the_configuration_and_no_sources(clone: Clone) -> None:
    clone.deploy("prod")
    place = f"/Workspace/Users/{VALUES['service_principal']}/.bundle/mainstem/shop/prod/files"
    found = {
        entry["path"].removeprefix(place)
        for folder in (place, f"{place}/pipelines")
        for entry in json.loads(clone.ask("workspace", "list", folder, "-o", "json").stdout)
    }
    assert found == {"/pipelines", "/pipelines/shop.yml"}


def test_two_pipelines_are_deployed_side_by_side(clone: Clone) -> None:
    with (clone.folder / "databricks.yml").open("a", encoding="utf-8") as bundle:
        bundle.write("\n  crm:\n    <<: *prod\n    variables: {pipeline: crm}\n    resources: *serverless\n")
    assert clone.deploy("prod") == "20 created, 0 changed, 0 deleted, 0 unchanged"
    assert clone.deploy("crm") == "20 created, 0 changed, 0 deleted, 0 unchanged"
    names = {job["settings"]["name"] for job in json.loads(clone.ask("jobs", "list", "-o", "json").stdout)}
    assert {"mainstem shop", "mainstem crm"} < names
    assert len(names) == 12
