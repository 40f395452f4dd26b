"""The configuration file as a document: strict YAML, with references to the environment resolved."""

from __future__ import annotations

import re
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import yaml

from framework.config.secrets import SecretUnavailableError, read_secret
from framework.errors import ConfigurationError, suggested

_REFERENCE = re.compile(r"\$\{([^}]*)\}")

_SECRET_PLACES = frozenset({"alerts", "kafka", "snapshot"})
"""Keys at or below which a secret may be, even if the file has the wrong shape."""

_NO_SECRETS = frozenset({"topics", "topic_pattern"})

_MOST_VALUES = 100_000
"""A configuration has far fewer values: more come from aliases that repeat aliases."""

KeyPath: TypeAlias = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Document:
    """A configuration file. `written` is its text as values, `resolved` the same with references replaced.

    Messages quote only `written`: the value of a reference may be a secret.
    """

    path: Path
    written: Mapping[str, object]
    resolved: Mapping[str, object]

    def where(self, keys: KeyPath) -> str:
        """File and key path for messages."""
        return f"{self.path}: {dotted(keys)}" if keys else str(self.path)

    def has_reference(self, keys: KeyPath) -> bool:
        """Whether the value at a key path has a reference to the environment or a secret."""
        return _REFERENCE.search(str(self._at(keys))) is not None

    def quoted(self, keys: KeyPath) -> str:
        """The written value at a key path, for messages; possible secrets are hidden, references stay."""
        value = self._at(keys)
        if isinstance(value, Mapping | list):  # anything inside may be a secret in the wrong place
            return "keys and values" if isinstance(value, Mapping) else "a list"
        if any(key in _SECRET_PLACES for key in keys) and not any(key in _NO_SECRETS for key in keys):
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
    """A key path for people: `tables[2].columns.photo`."""
    text = ""
    for key in keys:
        text += f"[{key}]" if isinstance(key, int) else f".{key}"
    return text.removeprefix(".")


def read_document(path: Path, environ: Mapping[str, str]) -> Document:
    """The document at `path` with references resolved; refuses unreadable files, bad YAML, repeated keys."""
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
            "CONFIG_UNREADABLE",
            found=str(error),
            where=str(path),
            action="make it a readable UTF-8 text file",
        ) from None
    written = _parsed(path, text)
    document = Document(path, written, {})
    resolved = {key: _resolved(value, (key,), document, environ) for key, value in written.items()}
    return Document(path, written, resolved)


def _parsed(path: Path, text: str) -> dict[str, object]:
    try:
        document = _loaded(text)
    except _DuplicateKey as duplicate:
        raise ConfigurationError(
            "CONFIG_DUPLICATE_KEY",
            found=f"the key '{duplicate.key}' is written twice",
            where=f"{path}: line {duplicate.line}",
            action="keep one of the two",
        ) from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise ConfigurationError(
            "CONFIG_NOT_YAML", found=_problem(error), where=_place(path, error), action="correct the YAML"
        ) from None
    if not isinstance(document, dict):
        raise ConfigurationError(
            "CONFIG_WRONG_TYPE",
            found=f"{type(document).__name__} at the top of the file",
            where=str(path),
            action="begin with `pipeline:`, `lakehouse:` and `sources:`",
        )
    return {str(key): value for key, value in document.items()}


def _loaded(text: str) -> object:
    """The document of a YAML text.

    Raises ValueError where aliases make it endless, or far larger than its text.
    """
    loader = _StrictLoader(text)
    try:
        node = loader.get_single_node()
        if node is None:
            return None
        if _size(node, {}) > _MOST_VALUES:
            raise _TooLarge
        return loader.construct_document(node)
    finally:
        loader.dispose()


def _size(node: yaml.Node, known: dict[int, int | None]) -> int:
    """The number of values of a node, each alias counted as what it repeats.

    `known` has None for nodes that are being counted.
    """
    if id(node) in known:
        found = known[id(node)]
        if found is None:
            raise _TooLarge
        return found
    known[id(node)] = None
    parts: list[yaml.Node] = []
    if isinstance(node, yaml.MappingNode):
        parts = [part for pair in node.value for part in pair]
    elif isinstance(node, yaml.SequenceNode):
        parts = node.value
    size = 1 + sum(_size(part, known) for part in parts)
    known[id(node)] = size
    return size


class _TooLarge(ValueError):
    """Aliases repeat each other."""


def _problem(error: Exception) -> str:
    if isinstance(error, _TooLarge):
        return f"aliases that stand for themselves, or for more than {_MOST_VALUES:,} values"
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
    """YAML without repeated keys. Keys of a merge (`<<`) may be overridden, as YAML says."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, object]:
        seen: set[str] = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode) or key.tag == "tag:yaml.org,2002:merge":
                continue
            if key.value in seen:
                raise _DuplicateKey(key.value, key.start_mark.line + 1)
            seen.add(key.value)
        return super().construct_mapping(node, deep=deep)
