"""Expressions are Java's, as Spark reads them: what it would not read is refused with the configuration."""

from __future__ import annotations

import pytest

from framework.config.java_regex import check_expression


@pytest.mark.parametrize(
    "pattern",
    [
        r"[^@]+@[^@]+",
        r"\p{L}[\p{L}\d]*",
        r"(?<a>x)\k<a>",
        r"\Qa(b\E",
        r"a\z",
        r"\\\(",
        r"\x{1F600}",
        r"(?<=a)b",
        r"[a-z&&[^b]]",
        r"a++\h",
    ],
)
def test_what_java_reads_is_accepted(pattern: str) -> None:
    check_expression(pattern)


@pytest.mark.parametrize("pattern", ["(", r"\\(", "[a-z", "*a", r"\d{2,1}", "(?P<a>x)", "(?(1)a|b)"])
def test_what_java_does_not_read_is_refused(pattern: str) -> None:
    with pytest.raises(ValueError, match="regular expression"):
        check_expression(pattern)
