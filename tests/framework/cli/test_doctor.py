import json
from pathlib import Path

import pytest

from framework.cli import main
from framework.cli.commands.doctor import diagnose
from framework.errors import MainstemError


def test_every_finding_that_is_not_ok_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.setattr("framework.cli.commands.doctor.LEAST_DISK", 10**18)
    monkeypatch.setattr("framework.cli.commands.doctor.LEAST_MEMORY", 10**18)

    findings = {finding.name: finding for finding in diagnose(str(tmp_path / "not" / "there"))}

    bad = {name for name, finding in findings.items() if not finding.ok}
    assert bad == {"java", "memory", "temporary folder", "lakehouse disk"}
    assert all(findings[name].action for name in bad)
    assert findings["lakehouse folder"].ok
    assert findings["python"].ok


def test_lakehouse_in_an_object_store_is_not_looked_at() -> None:
    assert not any(finding.name.startswith("lakehouse") for finding in diagnose("s3a://bucket/lake"))


def test_spark_is_tried_only_when_asked_for() -> None:
    def fail() -> None:
        raise MainstemError("JARS_UNAVAILABLE", found="no jars", where="here", action="connect")

    assert "spark" not in {finding.name for finding in diagnose()}
    assert diagnose(start_spark=fail)[-1].action == "connect"
    assert diagnose(start_spark=lambda: None)[-1].ok


def test_a_configuration_that_is_named_must_be_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["doctor", "-c", "wrong.yml"]) == 2
    assert "error: CONFIG_NOT_FOUND\n" in capsys.readouterr().err
    main(["doctor"])
    found = capsys.readouterr()
    assert ("python" in found.out, "CONFIG_NOT_FOUND" in found.err) == (True, False)


def test_the_rights_of_a_pipeline_are_listed_without_a_workspace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("DATABRICKS_RUNTIME_VERSION", raising=False)
    file = tmp_path / "mainstem.yml"
    file.write_text(
        "pipeline: shop\nlakehouse: {catalog: main}\ncheckpoints: /Volumes/main/ops/files\n"
        "sources: {feed: {format: canal, files: /Volumes/main/ops/landing/feed}}\n"
    )
    assert main(["doctor", "--databricks", "-c", str(file)]) == 0
    principal = "`the application id of the service principal`"
    assert f"GRANT USE CATALOG ON CATALOG `main` TO {principal};  -- tables\n" in capsys.readouterr().out
    assert main(["doctor", "--databricks", "--json", "-c", str(file)]) == 0
    grants = json.loads(capsys.readouterr().out)["grants"]
    assert f"GRANT READ VOLUME ON VOLUME `main`.`ops`.`landing` TO {principal}" in grants
    assert len(grants) == 8
    assert main(["doctor", "--live", "-c", str(file)]) == 1
    assert "error: NO_WORKSPACE\n" in capsys.readouterr().err
