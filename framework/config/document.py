"""The configuration file as a document: strict YAML, with references to the environment resolved."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import yaml

from framework.config.quoting import quoted_key, quoted_name, quoted_reference, quoted_value, yaml_problem
from framework.config.secrets import SecretUnavailableError, read_secret
from framework.errors import ConfigurationError, suggested

_REFERENCE = re.compile(r"\$\{([^}]*)\}")

_MOST_VALUES = 100_000
_YAML_ADVICE = (
    "compare the line with those around it: indentation by spaces, a space behind each colon, quotes that end"
)
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
    node: yaml.Node | None = None

    def where(self, keys: KeyPath) -> str:
        """File, key path, line and column for messages; keys that may be secrets are hidden."""
        place = self.position(keys)
        shown = f" (line {place[0]}, column {place[1]})" if place else ""
        return f"{self.path}: {self.dotted(keys)}{shown}" if keys else str(self.path)

    def position(self, keys: KeyPath) -> tuple[int, int] | None:
        """Line and column, from 1, of the key or item at a key path, or of the nearest one above it.

        None where the file has none of them.
        """
        node, mark = self.node, None
        for key in keys:
            step = _step(node, key)
            if step is None:
                break
            node, mark = step
        return (mark.line + 1, mark.column + 1) if mark else None

    def dotted(self, keys: KeyPath) -> str:
        """A key path for messages: `tables[2].columns.photo`; keys that may be secrets are hidden."""
        text = ""
        for index, key in enumerate(keys):
            is_index = isinstance(key, int) and isinstance(self.at(keys[:index]), list)
            text += f"[{key}]" if is_index else f".{quoted_key(key, keys[:index])}"
        return text.removeprefix(".")

    def key(self, keys: KeyPath) -> str:
        """The last key of a path, for messages; one that may be a secret is hidden."""
        return quoted_key(keys[-1], keys[:-1])

    def has_reference(self, keys: KeyPath) -> bool:
        """Whether the value at a key path has a reference to the environment or a secret."""
        return _REFERENCE.search(str(self.at(keys))) is not None

    def quoted(self, keys: KeyPath) -> str:
        """The written value at a key path, for messages; possible secrets are hidden, references stay."""
        return quoted_value(self.at(keys), keys)

    def at(self, keys: KeyPath) -> object:
        """The written value at a key path, None where there is none; not for messages."""
        value: object = self.written
        for key in keys:
            if isinstance(value, Mapping):
                value = value.get(key)
            elif isinstance(value, list) and isinstance(key, int) and key < len(value):
                value = value[key]
        return value


def _step(node: yaml.Node | None, key: str | int) -> tuple[yaml.Node, yaml.Mark] | None:
    """The node at a key or index, and where the key or item begins; None where there is none."""
    if isinstance(node, yaml.SequenceNode) and isinstance(key, int) and key < len(node.value):
        item: yaml.Node = node.value[key]
        return item, item.start_mark
    if isinstance(node, yaml.MappingNode):
        for name, value in reversed(node.value):  # the keys of a merge come first and are overridden
            if isinstance(name, yaml.ScalarNode) and name.value == str(key):
                return value, name.start_mark
    return None


AddFault: TypeAlias = Callable[[KeyPath, ConfigurationError], None]
"""What is told of a fault at a key path."""


def _refuse(keys: KeyPath, error: ConfigurationError) -> None:
    raise error


def read_document(path: Path, environ: Mapping[str, str], add_fault: AddFault = _refuse) -> Document:
    """The document at `path` with references resolved; refuses unreadable files, bad YAML, repeated keys.

    A reference that cannot be resolved is a fault, and stays as it is.
    """
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
            found="a folder" if path.is_dir() else str(error),
            where=str(path),
            action=f"name the file in it: -c {path / 'mainstem.yml'}"
            if path.is_dir()
            else "make it a readable UTF-8 text file",
        ) from None
    written, node = _parsed(path, text)
    document = Document(path, written, {}, node)
    resolving = _Resolving(document, environ, add_fault)
    resolved = {key: resolving.resolved(value, (key,)) for key, value in written.items()}
    return Document(path, written, resolved, node)


def resolved_values(
    written: Mapping[str, object], environ: Mapping[str, str], place: Path
) -> dict[str, object]:
    """Values with their references replaced; raises ConfigurationError, which names `place`."""
    resolving = _Resolving(Document(place, written, {}), environ, _refuse)
    return {key: resolving.resolved(value, (key,)) for key, value in written.items()}


def _parsed(path: Path, text: str) -> tuple[dict[str, object], yaml.Node | None]:
    try:
        document, node, duplicates = _loaded(text)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise ConfigurationError(
            "CONFIG_NOT_YAML", found=_problem(error), where=_place(path, error), action=_YAML_ADVICE
        ) from None
    if duplicates:
        first, *others = [_duplicate(path, key, mark) for key, mark in duplicates]
        first.others = tuple(others)
        raise first
    if not isinstance(document, dict):
        raise ConfigurationError(
            "CONFIG_WRONG_TYPE",
            found=_at_the_top(document),
            where=str(path),
            action="begin with `pipeline:`, `lakehouse:` and `sources:`",
        )
    return {str(key): value for key, value in document.items()}, node


def _at_the_top(document: object) -> str:
    """What a file holds instead of keys and values."""
    if document is None:
        return "an empty file"
    return "a list at the top of the file" if isinstance(document, list) else "one value, and no key"


def _duplicate(path: Path, key: object, mark: yaml.Mark) -> ConfigurationError:
    return ConfigurationError(
        "CONFIG_DUPLICATE_KEY",
        found=f"{quoted_name(key)} is written twice",
        where=f"{path}: line {mark.line + 1}, column {mark.column + 1}",
        action="keep one of the two",
    )


def _loaded(text: str) -> tuple[object, yaml.Node | None, list[tuple[object, yaml.Mark]]]:
    """The document of a YAML text, its node, and the keys that are repeated with their places.

    Raises ValueError where aliases make it endless, or far larger than its text.
    """
    loader = _StrictLoader(text)
    try:
        node = loader.get_single_node()
        if node is None:
            return None, None, []
        if _size(node, {}) > _MOST_VALUES:
            raise _TooLarge
        return loader.construct_document(node), node, loader.duplicates
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
    return yaml_problem(error.problem or "") if isinstance(error, yaml.MarkedYAMLError) else "not YAML"


def _place(path: Path, error: Exception) -> str:
    mark = error.problem_mark if isinstance(error, yaml.MarkedYAMLError) else None
    return f"{path}: line {mark.line + 1}, column {mark.column + 1}" if mark else str(path)


@dataclass(frozen=True, slots=True)
class _Resolving:
    """Replaces the references of a document, and collects the faults of those that it cannot replace."""

    document: Document
    environ: Mapping[str, str]
    add_fault: AddFault

    def resolved(self, value: object, keys: KeyPath) -> object:
        """The value at a key path with its references replaced."""
        if isinstance(value, str):
            return _REFERENCE.sub(lambda match: self._replacement(match, keys), value)
        if isinstance(value, dict):
            return {key: self.resolved(item, (*keys, str(key))) for key, item in value.items()}
        if isinstance(value, list):
            return [self.resolved(item, (*keys, index)) for index, item in enumerate(value)]
        return value

    def _replacement(self, match: re.Match[str], keys: KeyPath) -> str:
        try:
            return _looked_up(match[1], keys, self.document, self.environ)
        except ConfigurationError as error:
            self.add_fault(keys, error)
            return match[0]


def _looked_up(reference: str, keys: KeyPath, document: Document, environ: Mapping[str, str]) -> str:
    kind, _, name = reference.partition(":")
    if kind == "env" and name in environ:
        return environ[name]
    scope, _, key = name.partition("/")
    quoted = quoted_reference(reference)
    if kind == "secret" and scope and key:
        try:
            return read_secret(scope, key)
        except SecretUnavailableError as error:
            raise ConfigurationError(
                "CONFIG_SECRET_UNAVAILABLE",
                found=f"{quoted}, but {error}",
                where=document.where(keys),
                action="check scope, key and the right to read them; outside Databricks use ${env:NAME}",
            ) from None
    if kind == "env":
        raise ConfigurationError(
            "CONFIG_ENV_MISSING",
            found=f"{quoted}, but there is no such environment variable",
            where=document.where(keys),
            action=f"set the variable of {quoted} before you start mainstem",
        )
    raise ConfigurationError(
        "CONFIG_BAD_REFERENCE",
        found="a reference that is neither ${env:NAME} nor ${secret:scope/key}",
        where=document.where(keys),
        action=f"write one of the two; {suggested(kind, ('env', 'secret'))}; "
        "a text that has `${` of its own goes into a variable, and a reference to that here",
    )


class _StrictLoader(yaml.SafeLoader):
    """YAML that notes repeated keys. Keys of a merge (`<<`) may be overridden, as YAML says."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.duplicates: list[tuple[object, yaml.Mark]] = []

    def construct_object(self, node: yaml.Node, deep: bool = False) -> object:
        """The value of a node; raises ConstructorError with its place where its tag does not allow it."""
        try:
            return super().construct_object(node, deep=deep)
        except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError):
            problem = "a value that its type or tag does not allow"
            raise yaml.constructor.ConstructorError(problem=problem, problem_mark=node.start_mark) from None

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, object]:
        seen: set[str] = set()
        for key, _ in node.value if isinstance(node, yaml.MappingNode) else ():
            if not isinstance(key, yaml.ScalarNode) or key.tag == "tag:yaml.org,2002:merge":
                continue
            if key.value in seen:
                self.duplicates.append((key.value, key.start_mark))
            seen.add(key.value)
        return super().construct_mapping(node, deep=deep)
