"""Decides what errors of the configuration may quote: nothing that can be a secret."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import date

HIDDEN = "a value that is not shown"
HIDDEN_KEY = "(a key that is not shown)"

_SOURCE_SETTING_LIST = """
    format files table layout timezone pairing_timeout epoch order auto_loader follow_links
    max_gzip_ratio max_file_messages database before_image_prefix decimals binary times
"""
_TABLE_SETTING_LIST = "match source history keys columns deletes schema_policy replica exclude bad_values"
_RULE_SETTING_LIST = """
    match name severity gate on_change not_null unique accepted range regex length relationship freshness
    row_count_change
"""
_SOURCE_SETTINGS = frozenset(_SOURCE_SETTING_LIST.split())
_TABLE_SETTINGS = frozenset(_TABLE_SETTING_LIST.split())
_QUALITY_SETTINGS = frozenset({"enabled", "defaults", "reconciliation", "scan"})
_RULE_SETTINGS = frozenset(_RULE_SETTING_LIST.split())

_PLAIN = re.compile(r"[\w .,*/()<>`+-]{0,80}")
_PLAIN_KEY = re.compile(r"[\w .*$<>-]{1,80}")
_SETTING_KEY = re.compile(r"[A-Za-z]+(?:[._-][A-Za-z]+)*")
_SECRET_WORD = re.compile(r"passw|pwd|secret|token|credential", re.IGNORECASE)
_REFERENCE = re.compile(r"\$\{(?:env:[A-Za-z_]\w*|secret:[\w.-]+/[\w.-]+)\}", re.ASCII)
_SAFE_IN_YAML_ERROR = re.compile(r"'(<[a-z ]+>|[\[\]{},:?-]|\\t)'")


def quoted_value(value: object, keys: Sequence[object]) -> str:
    """A value of the file for messages.

    It is quoted only at a place of a closed list, and only where it is a plain short text, a number, a date
    or a truth value. References to the environment are quoted, their values never.
    """
    if isinstance(value, Mapping | list):  # anything inside may be a secret in the wrong place
        return "keys and values" if isinstance(value, Mapping) else "a list"
    if value is None:
        return "nothing"
    if not _is_harmless(keys):
        return HIDDEN
    if isinstance(value, str):
        return repr(value) if is_plain(value) else HIDDEN
    return str(value) if isinstance(value, bool | int | float | date) else HIDDEN


def is_plain(text: str) -> bool:
    """Whether a text is plain and short; one with an address, a sign of a login or a secret's name is not."""
    rest = _REFERENCE.sub("", text)
    return _PLAIN.fullmatch(rest) is not None and "//" not in rest and _SECRET_WORD.search(rest) is None


def quoted_reference(reference: str) -> str:
    """A reference for messages, without its name unless that is a plain one."""
    text = f"${{{reference}}}"
    return text if _REFERENCE.fullmatch(text) else "a reference"


def quoted_key(key: object, above: Sequence[object]) -> str:
    """A key of the file for messages, `above` has the keys on the way to it.

    Beside secrets it is quoted only if it looks like the name of a setting.
    """
    text = str(key)
    pattern = _SETTING_KEY if _is_beside_secrets(above) else _PLAIN_KEY
    return text if pattern.fullmatch(text) and len(text) <= 80 else HIDDEN_KEY


def quoted_name(key: object) -> str:
    """A key whose place is not known, for messages."""
    text = str(key)
    return f"the key '{text}'" if _SETTING_KEY.fullmatch(text) and len(text) <= 80 else "a key"


def yaml_problem(problem: str) -> str:
    """The text of a YAML error without what it quotes of the file."""
    if "undefined alias" in problem:
        return "an alias without an anchor; a text that begins with '*' needs quotes"
    if "constructor for the tag" in problem or "tag handle" in problem:
        return "an unknown tag; a text that begins with '!' needs quotes"
    marked = _SAFE_IN_YAML_ERROR.sub("\0\\1\0", problem)
    return re.split("['\"]", marked)[0].replace("\0", "'").strip() or "not YAML"


def _is_harmless(keys: Sequence[object]) -> bool:
    """Whether neither this place nor one below it can hold a secret."""
    match tuple(keys):
        case ("pipeline" | "lakehouse" | "checkpoints",) | ("lakehouse", "catalog" | "schema_prefix"):
            return True
        case ("lakehouse", "grants", _, *_) | ("sources", _, "columns", _) | ("quality", "sources", _):
            return True
        case ("sources", _, setting):
            return setting in _SOURCE_SETTINGS
        case ("tables", _, setting, *_):
            return setting in _TABLE_SETTINGS
        case ("quality", "rules", _, setting, *_):
            return setting in _RULE_SETTINGS
        case ("quality", setting):
            return setting in _QUALITY_SETTINGS
    return False


def _is_beside_secrets(above: Sequence[object]) -> bool:
    match tuple(above):
        case ("tables", _, *_) | ("lakehouse", "grants", *_) | ("quality", "sources") | ("sources",):
            return False
        case ("sources", _) | ("sources", _, "columns"):
            return False
    return True
