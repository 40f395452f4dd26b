"""The Databricks command line of this machine reads the bundle as the tests beside this one do.

It asks a server on the loopback that knows the name of the user and has empty folders.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

pytest.importorskip("databricks.bundles", reason="the group `bundle` of pyproject.toml is not installed")

from framework.config.model import load_config
from framework.pipeline.session import option_models
from tests.architecture.bundle import BUNDLE, VALUES, read_bundle, target_names
from tests.framework.observability.receivers import served

ROOT = Path(__file__).parents[2]
TARGETS = target_names(ROOT)
TEMPLATE = ROOT / "templates" / "pipeline"
PRODUCTION = {"service_principal": VALUES["service_principal"], "notify": VALUES["notify"]}


class Workspace(BaseHTTPRequestHandler):
    """A workspace with one user and empty folders."""

    def do_GET(self) -> None:
        place = urlsplit(self.path)
        if place.path.endswith("/scim/v2/Me"):
            self.answer(200, {"id": "1", "userName": "someone@example.com"})
        elif place.path.endswith("/workspace/get-status"):
            (folder,) = parse_qs(place.query)["path"]
            self.answer(200, {"object_id": 1, "object_type": "DIRECTORY", "path": folder})
        elif place.path.startswith("/api/2.0/permissions/"):
            self.answer(200, {"object_type": "directory", "access_control_list": []})
        else:
            self.answer(404, {"error_code": "RESOURCE_DOES_NOT_EXIST", "message": "nothing is here"})

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.answer(200, {})

    def answer(self, status: int, content: dict[str, Any]) -> None:
        body = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: object) -> None:
        """Say nothing on standard error."""


@pytest.fixture(scope="module")
def program() -> str:
    found = shutil.which(os.environ.get("MAINSTEM_DATABRICKS", "databricks"))
    if "MAINSTEM_BUNDLE" not in os.environ:
        pytest.skip("starts the Databricks command line: make test-bundle")
    if found is None:
        pytest.skip("no Databricks command line: install it, or name it with MAINSTEM_DATABRICKS")
    return found


@pytest.fixture(scope="module")
def host() -> Iterator[str]:
    with served(Workspace) as address:
        yield address


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A copy of what makes the bundle, for the command line writes beside it."""
    for file in (
        *(ROOT / BUNDLE, ROOT / "pyproject.toml", ROOT / "pipelines" / "shop.yml"),
        *(*ROOT.glob("*/*.job.yml"), *ROOT.glob("*/*.json")),
    ):
        copied = tmp_path / "bundle" / file.relative_to(ROOT)
        copied.parent.mkdir(exist_ok=True, parents=True)
        shutil.copyfile(file, copied)
    return tmp_path / "bundle"


def rendered(
    program: str, host: str, folder: Path, answers: dict[str, str]
) -> subprocess.CompletedProcess[str]:
    """The template, rendered into a copy of the bundle."""
    (folder.parent / "answers.json").write_text(json.dumps(answers))
    words = ["bundle", "init", str(TEMPLATE), "--output-dir", str(folder)]
    return asked(program, host, folder, [*words, "--config-file", str(folder.parent / "answers.json")])


def settings_of(content: dict[str, Any]) -> dict[str, str]:
    """What the tasks set with `--env`, with the names that schemas and volumes get in a deployment."""

    def named(match: re.Match[str]) -> str:
        _, kind, name, part = match[1].split(".")
        return str(content["resources"][kind][name][part])

    text = content["variables"]["settings"]["value"]
    while (resolved := re.sub(r"\$\{(resources\.[^}]*)\}", named, text)) != text:
        text = resolved
    return dict(pair.strip().split("=", 1) for pair in text.split(","))


def validated(
    program: str, host: str, folder: Path, target: str, values: dict[str, str]
) -> subprocess.CompletedProcess[str]:
    words = ["bundle", "validate", "--output", "json", "--target", target]
    return asked(
        program, host, folder, words, {f"BUNDLE_VAR_{name}": value for name, value in values.items()}
    )


def asked(
    program: str, host: str, folder: Path, words: list[str], environment: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    inherited = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("DATABRICKS_", "BUNDLE_VAR_", "ARM_", "GOOGLE_"))
    }
    own = {
        "HOME": str(folder.parent),
        "DATABRICKS_HOST": host,
        "DATABRICKS_TOKEN": "none",
        "DATABRICKS_CLI_DISABLE_TELEMETRY": "1",
        "NO_PROXY": "127.0.0.1",
        "no_proxy": "127.0.0.1",
    }
    return subprocess.run(
        [program, *words],
        cwd=folder,
        env=inherited | own | (environment or {}),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.parametrize("target", TARGETS)
def test_the_command_line_reads_the_bundle_as_these_tests_do(
    program: str, host: str, copy: Path, target: str
) -> None:
    expected = read_bundle(ROOT, target)
    needed = VALUES.keys() if target.startswith("prod") else {"catalog", "warehouse_id"}
    done = validated(program, host, copy, target, {name: VALUES[name] for name in needed})
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)

    schemas = {name: schema["name"] for name, schema in found["resources"]["schemas"].items()}
    assert schemas == {
        name: schema["name"] for name, schema in expected.content["resources"]["schemas"].items()
    }
    prefix = expected.content["variables"]["lakehouse_prefix"]["default"]
    assert f"MAINSTEM_SCHEMA_PREFIX={prefix}," in found["variables"]["settings"]["value"]
    assert schemas["ops"] == f"{prefix}ops"
    for kind in ("schemas", "volumes"):
        assert all(each["lifecycle"]["prevent_destroy"] for each in found["resources"][kind].values())
    for name, job in expected.jobs.items():
        for start in ("schedule", "trigger", "continuous"):
            statuses = [
                jobs[name].get(start, {}).get("pause_status")
                for jobs in (found["resources"]["jobs"], expected.jobs)
            ]
            assert statuses[0] == statuses[1], (name, start)
        tasks = {task["task_key"] for task in found["resources"]["jobs"][name]["tasks"]}
        assert tasks == {task["task_key"] for task in job["tasks"]}


@pytest.mark.parametrize("name", sorted(VALUES))
def test_production_without_a_value_that_only_the_user_knows_is_refused_by_the_name_of_the_variable(
    program: str, host: str, copy: Path, name: str
) -> None:
    others = {key: value for key, value in VALUES.items() if key != name}
    done = validated(program, host, copy, "prod", others)
    assert done.returncode != 0
    assert f"no value assigned to required variable {name}" in done.stderr


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        ({"source": "volume"}, {"files": "/Volumes/main/{}sales_ops/landing/orders"}),
        (
            {"source": "external_location", "url": "abfss://feeds@store.dfs.core.windows.net/orders"},
            {"files": "abfss://feeds@store.dfs.core.windows.net/orders"},
        ),
        (
            {"source": "kafka", "bootstrap_servers": "one:9092,two:9092", "topics": "shop.orders,shop.lines"},
            {"kafka": {"bootstrap_servers": "one:9092,two:9092", "topics": ["shop.orders", "shop.lines"]}},
        ),
    ],
    ids=lambda value: value.get("source", ""),
)
def test_the_template_writes_a_first_pipeline_that_both_targets_deploy(
    program: str, host: str, copy: Path, answers: dict[str, str], expected: dict[str, Any]
) -> None:
    given = {"pipeline": "sales", "format": "canal", "warehouse_id": "12ab", "schedule": "0 5 * * * ?"}
    done = rendered(program, host, copy, given | answers | PRODUCTION)
    assert done.returncode == 0, done.stderr
    assert "databricks bundle deploy" in done.stdout + done.stderr
    for target, own in (("dev", "dev_someone_"), ("prod", "")):
        found = validated(program, host, copy, target, {})
        assert found.returncode == 0, found.stderr
        content = json.loads(found.stdout)
        job = content["resources"]["jobs"]["mainstem"]
        assert job["name"].endswith("mainstem sales")
        assert job["schedule"]["quartz_cron_expression"] == (
            "0 5 * * * ?" if target == "prod" else "0 0 * * * ?"
        )
        config = load_config(
            copy / "pipelines" / "sales.yml", formats=option_models(), environ=settings_of(content)
        )
        assert config.pipeline == "sales"
        source = config.sources["orders"]
        assert source.format == "canal"
        if source.kafka is None:
            assert {"files": source.files} == {key: text.format(own) for key, text in expected.items()}
        else:
            assert source.kafka.model_dump(mode="json", include=expected["kafka"].keys()) == expected["kafka"]


def test_the_template_writes_values_for_development_alone_without_a_service_principal(
    program: str, host: str, copy: Path
) -> None:
    assert rendered(program, host, copy, {"warehouse_id": "12ab"}).returncode == 0
    written = sorted(path.relative_to(copy).as_posix() for path in copy.rglob("*-overrides.json"))
    assert written == [".databricks/bundle/dev/variable-overrides.json"]


def test_the_template_writes_the_values_of_another_pipeline_for_a_target_of_its_name(
    program: str, host: str, copy: Path
) -> None:
    done = rendered(
        program, host, copy, {"pipeline": "crm", "place": "another", "warehouse_id": "12ab"} | PRODUCTION
    )
    assert done.returncode == 0, done.stderr
    told = done.stdout + done.stderr
    target = told[told.index("  crm:\n") : told.index("docs/databricks.md")]
    with (copy / BUNDLE).open("a", encoding="utf-8") as bundle:
        bundle.write(f"\n{target}")
    found = validated(program, host, copy, "crm", {})
    assert found.returncode == 0, found.stderr
    schemas = json.loads(found.stdout)["resources"]["schemas"]
    assert schemas["gold"]["name"] == "crm_gold"


@pytest.mark.parametrize(
    ("answers", "told"),
    [
        ({"pipeline": "shop"}, "already exist"),
        ({"pipeline": "prod", "place": "another"} | PRODUCTION, "prod is the name of a target"),
        ({"pipeline": "crm", "place": "another"}, "name its service principal"),
        ({"catalog": 'x", "y": "'}, "catalog"),
    ],
)
def test_the_template_overwrites_and_guesses_nothing(
    program: str, host: str, copy: Path, answers: dict[str, str], told: str
) -> None:
    (copy / "pipelines" / "shop.yml").write_text("pipeline: shop\n")
    done = rendered(program, host, copy, {"warehouse_id": "12ab"} | answers)
    assert done.returncode != 0
    assert told in done.stderr
    assert (copy / "pipelines" / "shop.yml").read_text() == "pipeline: shop\n"
