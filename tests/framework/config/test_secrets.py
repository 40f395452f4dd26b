from __future__ import annotations

import sys
import types
from pathlib import Path

import pytest

from framework.config.document import read_document
from framework.config.model import load_config
from framework.errors import ConfigurationError
from silver.layer import LAYER as SILVER

KNOWN = {("kafka", "password"): "s3cret-value"}


class _Secrets:
    def get(self, scope: str, key: str) -> str:
        if (scope, key) not in KNOWN:
            raise KeyError(f"the answer of the workspace, with {KNOWN}")
        return KNOWN[scope, key]


@pytest.fixture
def databricks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Databricks' library as far as it is used, with one secret."""
    library = types.ModuleType("databricks.sdk")
    client = types.SimpleNamespace(dbutils=types.SimpleNamespace(secrets=_Secrets()))
    library.WorkspaceClient = lambda: client  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "databricks.sdk", library)


def document(folder: Path, reference: str) -> Path:
    file = folder / "mainstem.yml"
    file.write_text(
        f"pipeline: shop\nsources: {{crm: {{kafka: {{password: '{reference}'}}}}}}\n", encoding="utf-8"
    )
    return file


@pytest.mark.usefixtures("databricks")
def test_a_secret_is_resolved_and_messages_quote_the_reference_alone(tmp_path: Path) -> None:
    found = read_document(document(tmp_path, "${secret:kafka/password}"), {})
    assert found.resolved["sources"] == {"crm": {"kafka": {"password": "s3cret-value"}}}
    assert "s3cret-value" not in found.quoted(("sources",))


@pytest.mark.usefixtures("databricks")
def test_a_secret_that_is_not_there_is_named_and_the_answer_is_not_shown(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError) as refused:
        read_document(document(tmp_path, "${secret:kafka/other}"), {})
    assert refused.value.condition == "CONFIG_SECRET_UNAVAILABLE"
    assert "${secret:kafka/other}" in refused.value.found
    assert "s3cret-value" not in str(refused.value)


def test_without_databricks_a_secret_says_what_to_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "databricks.sdk", None)
    with pytest.raises(ConfigurationError) as refused:
        read_document(document(tmp_path, "${secret:kafka/password}"), {})
    assert refused.value.condition == "CONFIG_SECRET_UNAVAILABLE"
    assert "${env:NAME}" in refused.value.action


@pytest.mark.usefixtures("databricks")
@pytest.mark.parametrize("reference", ["${secret:kafka}", "${secret:/password}", "${secret:}"])
def test_a_secret_needs_scope_and_key(tmp_path: Path, reference: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        read_document(document(tmp_path, reference), {})
    assert refused.value.condition == "CONFIG_BAD_REFERENCE"


def test_a_secret_is_read_anew_each_time_and_a_new_one_is_no_other_configuration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "mainstem.yml"
    kafka = (
        "{bootstrap_servers: 'localhost:9092', topics: [t], kafka.sasl.jaas.config: '${env:BROKER_SECRET}'}"
    )
    file.write_text(
        f"pipeline: shop\nlakehouse: ./lake\nsources:\n  crm: {{format: debezium, kafka: {kafka}}}\n",
        encoding="utf-8",
    )
    found = []
    for secret in ("before-rotation", "after-rotation"):
        monkeypatch.setenv("BROKER_SECRET", secret)
        config = load_config(file, formats=SILVER.options())
        found.append(config)
        kafka_settings = config.sources["crm"].kafka
        assert kafka_settings is not None
        assert secret in str(kafka_settings.model_dump())
        assert secret not in repr(config)
    assert found[0].digest() == found[1].digest()
