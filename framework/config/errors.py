"""Turns pydantic's errors into faults of the configuration: file, key path, value, allowed values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from framework.config.document import Document, KeyPath
from framework.config.faults import Faults
from framework.errors import ConfigurationError, suggested

_TYPES = {
    "string_type": "a text",
    "int_type": "a whole number",
    "bool_type": "true or false",
    "tuple_type": "a list",
    "dict_type": "keys and values",
    "mapping_type": "keys and values",
    "model_type": "keys and values",
    "model_attributes_type": "keys and values",
    "float_type": "a number",
    "int_parsing": "a whole number",
    "int_from_float": "a whole number",
    "float_parsing": "a number",
    "bool_parsing": "true or false",
}
_LIMITS = {
    "greater_than": "write a number above {gt}",
    "greater_than_equal": "write a number from {ge}",
    "less_than": "write a number below {lt}",
    "less_than_equal": "write a number up to {le}",
    "string_too_short": "write a longer text: at least {min_length}",
    "string_too_long": "write at most {max_length} characters",
    "too_short": "write a longer list, of at least {min_length}",
    "too_long": "write a shorter list, of at most {max_length}",
}


_PATTERNS = {
    r"^[a-z][a-z0-9_]*$": "write small letters, digits and _, with a letter first: shop_1",
    r"^[A-Za-z0-9_]*$": "write letters, digits and _ alone",
}


def add_model_faults(
    error: ValidationError, document: Document, model: type[BaseModel], faults: Faults, at: KeyPath = ()
) -> None:
    """Add the faults of `model` below `at`, without those that only follow from another fault."""
    problems = error.errors(include_url=False)
    for problem in sorted(problems, key=lambda problem: _rank(problem, document, at)):
        keys = _written_keys(problem, document, at)
        if faults.covers(keys) or (problem["type"] == "missing" and faults.is_misspelt(keys)):
            continue
        condition, found, action = _explained(problem, keys, document, model, len(at))
        where = document.where(keys)
        faults.add(keys, ConfigurationError(condition, found=found, where=where, action=action))


def unknown_key(document: Document, keys: KeyPath, allowed: Iterable[str]) -> ConfigurationError:
    """The error for an unknown key."""
    name = str(keys[-1])
    return ConfigurationError(
        "CONFIG_UNKNOWN_KEY",
        found=f"the unknown key '{document.key(keys)}'",
        where=document.where(keys),
        action=suggested(name, allowed),
    )


def _explained(
    problem: ErrorDetails, keys: KeyPath, document: Document, model: type[BaseModel], depth: int
) -> tuple[str, str, str]:
    kind, context = problem["type"], problem.get("ctx", {})
    quoted = document.quoted(keys)
    if kind == "extra_forbidden":
        allowed = _fields_at(model, keys[depth:-1])
        return (
            "CONFIG_UNKNOWN_KEY",
            f"the unknown key '{document.key(keys)}'",
            suggested(str(keys[-1]), allowed),
        )
    if kind == "missing":
        return "CONFIG_MISSING_KEY", f"no key '{keys[-1]}'", f"write `{keys[-1]}:`"
    if kind in ("enum", "literal_error"):
        allowed = [word.strip("' ") for word in str(context["expected"]).replace(" or ", ", ").split(",")]
        return "CONFIG_BAD_VALUE", quoted, suggested(str(document.at(keys)), allowed)
    if kind == "bad_value":
        return "CONFIG_BAD_VALUE", quoted, str(context["action"])
    if kind == "value_error":
        return "CONFIG_BAD_VALUE", quoted, str(context["error"])
    if kind in _TYPES and keys[:1] == ("tables",) and keys[2:3] == ("columns",) and len(keys) == 4:
        return "CONFIG_WRONG_TYPE", quoted, "write the type as `{type: 'decimal(12,2)'}`"
    if kind in _TYPES:
        return "CONFIG_WRONG_TYPE", _as_yaml(document.at(keys), quoted), _right_type(kind, document.at(keys))
    if kind == "string_pattern_mismatch":
        return (
            "CONFIG_BAD_VALUE",
            quoted,
            _PATTERNS.get(context["pattern"], f"write a text that matches {context['pattern']}"),
        )
    if kind in _LIMITS:
        return "CONFIG_BAD_VALUE", quoted, _LIMITS[kind].format(**context)
    return "CONFIG_BAD_VALUE", quoted, problem["msg"]


def _as_yaml(value: object, quoted: str) -> str:
    """A wrong value as the file writes it; YAML reads more words as true and false than people expect."""
    if not isinstance(value, bool):
        return quoted
    return f"{str(value).lower()}, as YAML also reads yes, no, on and off"


def _right_type(kind: str, value: object) -> str:
    """What to write instead of a value of another type."""
    action = f"write {_TYPES[kind]} here"
    if kind == "string_type" and isinstance(value, bool | int | float):
        return f"{action}, in quotes"
    if kind == "tuple_type":
        begins = isinstance(value, Mapping)
        return f"{action}: {'begin each entry with `- `' if begins else 'its entries in [brackets]'}"
    if isinstance(value, list) and _TYPES[kind] == "keys and values":
        return f"{action}: a name and a colon instead of each `- `"
    return action


def _rank(problem: ErrorDetails, document: Document, at: KeyPath) -> tuple[bool, int]:
    """The order of problems: unknown keys first, then the deepest (the best fitting member of a union)."""
    return problem["type"] != "extra_forbidden", -len(_written_keys(problem, document, at))


def _written_keys(problem: ErrorDetails, document: Document, at: KeyPath) -> KeyPath:
    """The key path of a problem without the steps that pydantic adds for members of a union."""
    keys = (*at, *problem["loc"])
    path: list[str | int] = []
    value: object = document.written
    for index, key in enumerate(keys):
        is_absent = problem["type"] == "missing" and index == len(keys) - 1
        if isinstance(value, Mapping) and (key in value or is_absent):
            value = value.get(key)
        elif isinstance(value, list) and isinstance(key, int) and key < len(value):
            value = value[key]
        else:
            continue
        path.append(key)
    return tuple(path)


def _fields_at(model: type[BaseModel], keys: KeyPath) -> list[str]:
    """The allowed keys at a key path, from the models' fields."""
    found: list[type[BaseModel]] = [model]
    for key in keys:
        following = []
        for candidate in found:
            field = candidate.model_fields.get(str(key))
            following += _models_in(field.annotation) if field is not None else []
        found = following or found
    return sorted({name for candidate in found for name in candidate.model_fields})


def _models_in(annotation: object) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for argument in getattr(annotation, "__args__", ()) for model in _models_in(argument)]
