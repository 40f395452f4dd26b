"""The configuration, `mainstem.yml`: reads, checks and resolves it before anything else happens."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, ValidationError, field_validator

from framework.config.alerts import Alert
from framework.config.document import Document, read_document
from framework.config.errors import config_error, unknown_key
from framework.config.quality import UNWRITTEN, QualityOrNone
from framework.config.sources import Kafka, Layout, Source, read_sources
from framework.config.tables import ColumnRule, TableRule, TableRules, TableSettings
from framework.config.validation import check_folders, check_places
from framework.config.value_types import absolute_place
from framework.errors import ConfigurationError

__all__ = [
    "Catalog",
    "ColumnRule",
    "Config",
    "Kafka",
    "Layout",
    "Source",
    "TableRule",
    "TableRules",
    "TableSettings",
    "load_config",
    "validated_config",
]


LayerSchema = Literal["bronze", "silver", "gold", "ops"]
Privilege = Literal[
    "USE SCHEMA", "SELECT", "MODIFY", "READ VOLUME", "WRITE VOLUME", "BROWSE", "MANAGE", "ALL PRIVILEGES"
]


class Catalog(BaseModel):
    """A lakehouse whose tables are catalog tables: `<catalog>.<schema_prefix>gold.…`.

    `grants` has the privileges of users on the schema of a layer: `gold: {analysts: [USE SCHEMA, SELECT]}`.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    catalog: str = Field(min_length=1)
    schema_prefix: str = Field(default="", pattern=r"^[A-Za-z0-9_]*$")
    grants: dict[LayerSchema, dict[str, tuple[Privilege, ...]]] = Field(default_factory=dict)


class Config(BaseModel):
    """A checked configuration, immutable, with absolute paths and resolved references."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    pipeline: str = Field(pattern=r"^[a-z][a-z0-9_]*$", max_length=100)
    lakehouse: str | Catalog
    checkpoints: str | None = Field(default=None, min_length=1)
    sources: dict[str, Source] = Field(min_length=1)
    tables: tuple[TableRule, ...] = ()
    quality: QualityOrNone = UNWRITTEN
    alerts: tuple[Alert, ...] = ()

    _rules: TableRules = PrivateAttr()

    def model_post_init(self, context: object, /) -> None:
        """Compile the rules for tables; pydantic calls this after the fields are set."""
        self._rules = TableRules(self.tables)

    @field_validator("lakehouse")
    @classmethod
    def _refuse_empty(cls, lakehouse: str | Catalog) -> str | Catalog:
        if lakehouse == "":
            raise ValueError("write a folder or an object-store URL")
        return lakehouse

    @property
    def root(self) -> str:
        """The lakehouse's absolute path or URL without a final slash; the checkpoints' with a catalog."""
        if isinstance(self.lakehouse, str):
            return self.lakehouse
        return self.checkpoints or ""

    @property
    def is_judged(self) -> bool:
        """Whether the quality step runs: always, unless the configuration says `quality: false`."""
        return self.quality.enabled

    @property
    def rules(self) -> TableRules:
        """The `tables` entries alone: cheap to send to workers, and without secrets."""
        return self._rules

    def settings(self, database: str | None, schema: str | None, table: str) -> TableSettings:
        """The settings of one table; the same object for the same name."""
        return self._rules.settings(database, schema, table)

    def digest(self) -> str:
        """A hash of everything that can change a result; of Kafka settings the topics alone."""
        sources = {
            name: {
                **source.model_dump(mode="json", exclude={"kafka", "options"}),
                "kafka": repr(source.kafka),
                "options": source.options.model_dump(mode="json"),
            }
            for name, source in self.sources.items()
        }
        content = {**self.model_dump(mode="json", exclude={"sources", "alerts"}), "sources": sources}
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def load_config(
    path: str | Path, *, formats: Mapping[str, type[BaseModel]], environ: Mapping[str, str] = os.environ
) -> Config:
    """The configuration at `path`, complete and consistent.

    Args:
        path: The file.
        formats: The model of each format's options.
        environ: The environment that references read.

    Raises:
        ConfigurationError: It names file, key path, value, the allowed values and the nearest valid one.
    """
    return _checked(_document(path, environ), formats)


def validated_config(
    path: str | Path, *, formats: Mapping[str, type[BaseModel]], environ: Mapping[str, str] = os.environ
) -> Config:
    """The configuration as from `load_config`; every landing folder that this machine can see must exist."""
    document = _document(path, environ)
    config = _checked(document, formats)
    check_folders(config.sources, document)
    return config


def _document(path: str | Path, environ: Mapping[str, str]) -> Document:
    return read_document(Path(os.path.abspath(Path(path).expanduser())), environ)


def _checked(document: Document, formats: Mapping[str, type[BaseModel]]) -> Config:
    content = dict(document.resolved)
    if isinstance(content.get("sources"), dict):
        content["sources"] = read_sources(document, formats)
    try:
        config = _with_absolute_paths(Config.model_validate(content), document.path.parent)
    except ValidationError as error:
        raise config_error(error, document, Config) from None
    _check_checkpoints(config, document)
    for name in config.quality.sources:
        if name not in config.sources:
            raise unknown_key(document, ("quality", "sources", name), config.sources)
    check_places(config.sources, config.lakehouse if isinstance(config.lakehouse, str) else None, document)
    return config


def _with_absolute_paths(config: Config, folder: Path) -> Config:
    """The configuration with its own relative paths made absolute."""
    update: dict[str, object] = {}
    if "quality" in config.model_fields_set:
        update["quality"] = config.quality.with_absolute_paths(folder)
    if isinstance(config.lakehouse, str):
        update["lakehouse"] = absolute_place(config.lakehouse, folder)
    if config.checkpoints is not None:
        update["checkpoints"] = absolute_place(config.checkpoints, folder)
    return config.model_copy(update=update)


def _check_checkpoints(config: Config, document: Document) -> None:
    if isinstance(config.lakehouse, Catalog) and config.checkpoints is None:
        raise ConfigurationError(
            "CONFIG_MISSING_KEY",
            found="a lakehouse in a catalog, and no key 'checkpoints'",
            where=document.where(("checkpoints",)),
            action="write `checkpoints:` with a volume path, for instance /Volumes/main/shop/checkpoints",
        )
