"""Checks regular expressions of Java, which Spark reads, without a JVM. Pure."""

from __future__ import annotations

import re
import warnings

_PYTHONS_OWN = re.compile(r"(?<!\\)\(\?(?:P[<=>]|\()")
_JAVAS_OWN = re.compile(
    r"\\Q.*?(?:\\E|$)|\\[pP](?:\{\^?\w+(?:=\w+)?\}|\w)|\\x\{[0-9a-fA-F]+\}|\\k<(\w+)>|\(\?<(?=[a-zA-Z])|\\.",
    re.DOTALL,
)
_JAVAS_ESCAPES = "QpPhHvVRXezGK"


def check_expression(pattern: str) -> None:
    """Raises ValueError for a text that is no expression for Spark; it says what to write."""
    if _PYTHONS_OWN.search(pattern):
        raise ValueError(
            "write a regular expression of Java, which Spark reads: a named group is `(?<name>…)`"
        )
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            re.compile(_JAVAS_OWN.sub(_in_python, pattern))
    except re.error as error:
        raise ValueError(f"write a regular expression: {error.msg}") from None


def _in_python(found: re.Match[str]) -> str:
    """A part that only Java knows as something that Python knows, and that is valid in the same places."""
    text = found.group()
    if text == "(?<":
        return "(?P<"
    if text.startswith("\\k"):
        return f"(?P={found[1]})"
    return "w" if text[1] in _JAVAS_ESCAPES or text.startswith("\\x{") else text
