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
from framework.config.encodings import check_encodings
from framework.config.errors import add_model_faults, unknown_key
from framework.config.faults import Faults
from framework.config.quality import UNWRITTEN, QualityOrNone
from framework.config.sources import Kafka, Layout, Source, read_sources
from framework.config.tables import ColumnRule, TableRule, TableRules, TableSettings
from framework.config.validation import OwnPlaces, check_folders, check_lakehouse, check_places
from framework.config.value_types import absolute_place, check_place
from framework.errors import ConfigurationError, suggested

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

    catalog: str = Field(min_length=1, description="The catalog, which exists already.")
    schema_prefix: str = Field(
        default="",
        pattern=r"^[A-Za-z0-9_]*$",
        description="Comes before bronze, silver, gold and ops in the names of the schemas.",
    )
    grants: dict[LayerSchema, dict[str, tuple[Privilege, ...]]] = Field(
        default_factory=dict,
        description="The privileges that users and groups get on the schema of a layer.",
    )
    tags: dict[str, str] = Field(
        default_factory=dict,
        description="The tags of the four schemas, on Databricks, and with the tag `source` of each replica"
        " and history when it is made. Tags that others have set stay.",
    )


class Config(BaseModel):
    """A checked configuration, immutable, with absolute paths and resolved references."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    pipeline: str = Field(
        pattern=r"^[a-z][a-z0-9_]*$",
        max_length=100,
        description="The name of the pipeline. It names checkpoints and jobs: do not change it later.",
    )
    lakehouse: str | Catalog = Field(
        description="Where the tables are: a folder or object-store URL, or a catalog."
    )
    checkpoints: str | None = Field(
        default=None,
        min_length=1,
        description="Where checkpoints are, required with a catalog: a path of a volume.",
    )
    sources: dict[str, Source] = Field(min_length=1, description="The feeds, by names of your choice.")
    tables: tuple[TableRule, ...] = Field(
        default=(),
        description="Settings of tables. Every entry that matches a table applies; later ones win.",
    )
    quality: QualityOrNone = Field(
        default=UNWRITTEN, description="Your own quality rules; `false` switches the quality step off."
    )
    alerts: tuple[Alert, ...] = Field(
        default=(), description="Webhooks that receive failed runs, parked tables and broken rules."
    )

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

    @field_validator("lakehouse", "checkpoints")
    @classmethod
    def _refuse_one_slash(cls, place: str | Catalog | None) -> str | Catalog | None:
        """Whether a place is one of this machine is told by the two slashes behind its scheme."""
        if isinstance(place, str):
            check_place(place)
        scheme, slash, rest = place.partition(":/") if isinstance(place, str) else ("", "", "")
        if slash and len(scheme) > 1 and scheme.isalnum() and scheme != "file" and not rest.startswith("/"):
            # nothing of the value is quoted: a reference may have put a secret there
            raise ValueError("write three slashes behind the scheme, as in dbfs:///…")
        return place

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

    def settings(
        self, source: str | None, database: str | None, schema: str | None, table: str
    ) -> TableSettings:
        """The settings of one table of a source; the same object for the same name."""
        return self._rules.settings(source, database, schema, table)

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
    document, faults = _document(path, environ)
    config, _ = _checked(document, formats, faults)
    faults.raise_any(document)
    assert config is not None
    return config


def validated_config(
    path: str | Path, *, formats: Mapping[str, type[BaseModel]], environ: Mapping[str, str] = os.environ
) -> Config:
    """The configuration as from `load_config`; every landing folder that this machine can see must exist."""
    document, faults = _document(path, environ)
    config, sources = _checked(document, formats, faults)
    check_folders(sources, document, faults)
    faults.raise_any(document)
    assert config is not None
    return config


def _document(path: str | Path, environ: Mapping[str, str]) -> tuple[Document, Faults]:
    faults = Faults()
    return read_document(Path(os.path.abspath(Path(path).expanduser())), environ, faults.add), faults


def _checked(
    document: Document, formats: Mapping[str, type[BaseModel]], faults: Faults
) -> tuple[Config | None, Mapping[str, Source]]:
    """The configuration and its sources; None, and the sources that can be read, where it has faults."""
    content = dict(document.resolved)
    sources: dict[str, Source] = {}
    if isinstance(content.get("sources"), dict):
        content["sources"] = sources = read_sources(document, formats, faults)
    config = None
    try:
        config = _with_absolute_paths(Config.model_validate(content), document.path.parent)
    except ValidationError as error:
        add_model_faults(error, document, Config, faults)
    _check_checkpoints(content, document, faults)
    _check_quality_sources(content, document, faults)
    _check_table_sources(content, document, faults)
    if config is not None:
        check_encodings(config.tables, document, faults)
    own = OwnPlaces(
        *(
            absolute_place(place, document.path.parent) if isinstance(place, str) and place else None
            for place in (content.get("lakehouse"), content.get("checkpoints"))
        )
    )
    check_places(sources, own, document, faults)
    if own.lakehouse is not None:
        check_lakehouse(own.lakehouse, document, faults)
    return config, sources


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


def _check_checkpoints(content: Mapping[str, object], document: Document, faults: Faults) -> None:
    keys = ("checkpoints",)
    is_in_catalog = isinstance(content.get("lakehouse"), dict) and content.get("checkpoints") is None
    if is_in_catalog and not faults.is_misspelt(keys):
        error = ConfigurationError(
            "CONFIG_MISSING_KEY",
            found="a lakehouse in a catalog, and no key 'checkpoints'",
            where=document.where(keys),
            action="write `checkpoints:` with a volume path, for instance /Volumes/main/shop/checkpoints",
        )
        faults.add(keys, error)
    if isinstance(content.get("lakehouse"), str) and content.get("checkpoints") is not None:
        error = ConfigurationError(
            "CONFIG_BAD_VALUE",
            found="the key 'checkpoints', and a lakehouse that is no catalog",
            where=document.where(keys),
            action="leave `checkpoints:` out: they are in the folder of the lakehouse, below _mainstem",
        )
        faults.add(keys, error)


def _check_quality_sources(content: Mapping[str, object], document: Document, faults: Faults) -> None:
    quality, sources = content.get("quality"), document.resolved.get("sources")
    named = quality.get("sources") if isinstance(quality, dict) else None
    if isinstance(named, dict) and isinstance(sources, dict):
        for name in named:
            if name not in sources:
                keys = ("quality", "sources", str(name))
                faults.add(keys, unknown_key(document, keys, map(str, sources)))


def _check_table_sources(content: Mapping[str, object], document: Document, faults: Faults) -> None:
    tables, sources = content.get("tables"), document.resolved.get("sources")
    if not isinstance(tables, list | tuple) or not isinstance(sources, dict):
        return
    for number, rule in enumerate(tables):
        named = rule.get("source") if isinstance(rule, dict) else None
        if isinstance(named, str) and named and named not in sources:
            keys = ("tables", number, "source")
            error = ConfigurationError(
                "CONFIG_BAD_VALUE",
                found=document.quoted(keys),
                where=document.where(keys),
                action=suggested(named, map(str, sources)),
            )
            faults.add(keys, error)
