"""The configuration file as a document: YAML read strictly, and references to the environment resolved."""

from __future__ import annotations

import re
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import yaml

from framework.errors import ConfigurationError, suggested
from framework.secrets import SecretUnavailableError, read_secret

_REFERENCE = re.compile(r"\$\{([^}]*)\}")

KeyPath: TypeAlias = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Document:
    """A configuration file. `written` is what the file says, `resolved` the same with references replaced.

    Messages quote `written` alone: what a reference stands for may be a secret.
    """

    path: Path
    written: Mapping[str, object]
    resolved: Mapping[str, object]

    def where(self, keys: KeyPath) -> str:
        """File and key path as messages name them."""
        return f"{self.path}: {dotted(keys)}" if keys else str(self.path)

    def has_reference(self, keys: KeyPath) -> bool:
        """Whether the text at a key path is not all in the file: the environment or a secret completes it."""
        return _REFERENCE.search(str(self._at(keys))) is not None

    def quoted(self, keys: KeyPath) -> str:
        """What the file says at a key path; Kafka's settings and resolved references are not shown."""
        value = self._at(keys)
        if "kafka" in keys[:-1] and keys[-1] not in ("topics", "topic_pattern"):
            return "a value that is not shown"
        text = repr(value)
        return text if len(text) <= 80 else f"{text[:77]}..."

    def _at(self, keys: KeyPath) -> object:
        value: object = self.written
        for key in keys:
            if isinstance(value, Mapping):
                value = value.get(key)
            elif isinstance(value, list) and isinstance(key, int) and key < len(value):
                value = value[key]
        return value


def dotted(keys: KeyPath) -> str:
    """A key path as people write it: `tables[2].columns.photo`."""
    text = ""
    for key in keys:
        text += f"[{key}]" if isinstance(key, int) else f".{key}"
    return text.removeprefix(".")


def read_document(path: Path, environ: Mapping[str, str]) -> Document:
    """The document at `path`, each reference resolved; refuses unreadable files, bad YAML and repeated keys."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise ConfigurationError(
            "CONFIG_NOT_FOUND",
            found="no configuration file",
            where=str(path),
            action="name it with -c FILE, or write one with `mainstem init`",
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(
            "CONFIG_UNREADABLE", found=str(error), where=str(path), action="make it a readable UTF-8 text file"
        ) from None
    written = _parsed(path, text)
    document = Document(path, written, {})
    resolved = {key: _resolved(value, (key,), document, environ) for key, value in written.items()}
    return Document(path, written, resolved)


def _parsed(path: Path, text: str) -> dict[str, object]:
    try:
        document = yaml.load(text, Loader=_StrictLoader)
    except _DuplicateKey as duplicate:
        raise ConfigurationError(
            "CONFIG_DUPLICATE_KEY",
            found=f"the key '{duplicate.key}' is written twice",
            where=f"{path}: line {duplicate.line}",
            action="keep one of the two",
        ) from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise ConfigurationError("CONFIG_NOT_YAML", found=_problem(error), where=_place(path, error), action="correct the YAML") from None
    if not isinstance(document, dict):
        raise ConfigurationError(
            "CONFIG_WRONG_TYPE",
            found=f"{type(document).__name__} at the top of the file",
            where=str(path),
            action="begin with `pipeline:`, `lakehouse:` and `sources:`",
        )
    return {str(key): value for key, value in document.items()}


def _problem(error: Exception) -> str:
    return (error.problem or "not YAML") if isinstance(error, yaml.MarkedYAMLError) else "not YAML"


def _place(path: Path, error: Exception) -> str:
    mark = error.problem_mark if isinstance(error, yaml.MarkedYAMLError) else None
    return f"{path}: line {mark.line + 1}, column {mark.column + 1}" if mark else str(path)


def _resolved(value: object, keys: KeyPath, document: Document, environ: Mapping[str, str]) -> object:
    if isinstance(value, str):
        return _REFERENCE.sub(lambda match: _looked_up(match[1], keys, document, environ), value)
    if isinstance(value, dict):
        return {key: _resolved(item, (*keys, str(key)), document, environ) for key, item in value.items()}
    if isinstance(value, list):
        return [_resolved(item, (*keys, index), document, environ) for index, item in enumerate(value)]
    return value


def _looked_up(reference: str, keys: KeyPath, document: Document, environ: Mapping[str, str]) -> str:
    kind, _, name = reference.partition(":")
    if kind == "env" and name in environ:
        return environ[name]
    if kind == "env":
        raise ConfigurationError(
            "CONFIG_ENV_MISSING",
            found=f"${{{reference}}}, but there is no environment variable '{name}'",
            where=document.where(keys),
            action=f"set {name} before you start mainstem",
        )
    scope, _, key = name.partition("/")
    if kind == "secret" and scope and key:
        try:
            return read_secret(scope, key)
        except SecretUnavailableError as error:
            raise ConfigurationError(
                "CONFIG_SECRET_UNAVAILABLE",
                found=f"${{{reference}}}, but {error}",
                where=document.where(keys),
                action="check scope, key and the right to read them; outside Databricks use ${env:NAME}",
            ) from None
    raise ConfigurationError(
        "CONFIG_BAD_REFERENCE",
        found=f"${{{reference}}}",
        where=document.where(keys),
        action=f"write ${{env:NAME}} or ${{secret:scope/key}}; {suggested(kind, ('env', 'secret'))}",
    )


class _DuplicateKey(Exception):
    def __init__(self, key: object, line: int) -> None:
        super().__init__(key)
        self.key = key
        self.line = line


class _StrictLoader(yaml.SafeLoader):
    """YAML without repeated keys. Keys that a merge (`<<`) brings may be overridden, as YAML says."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, object]:
        seen: set[str] = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode) or key.tag == "tag:yaml.org,2002:merge":
                continue
            if key.value in seen:
                raise _DuplicateKey(key.value, key.start_mark.line + 1)
            seen.add(key.value)
        return super().construct_mapping(node, deep=deep)
