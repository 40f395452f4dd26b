"""A page of the documentation as a script: its files, its commands, and the output that it shows for them.

A block `yaml title="mainstem.yml"` is a file, a block `sh` has commands, and a block `text` after it has
lines of the output of its last command: `…` stands for any characters.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_FENCE = re.compile(
    r"^(?P<indent> *)```(?P<language>\w*)(?: title=\"(?P<title>[^\"]+)\")?\n(?P<text>.*?)^(?P=indent)```$",
    re.MULTILINE | re.DOTALL,
)
_FRAME = re.compile("[\u2500-\u257f]+")


@dataclass(frozen=True, slots=True)
class Block:
    """A block of code: its language, title (empty without one) and text, and its first line."""

    language: str
    title: str
    text: str
    line: int


@dataclass(frozen=True, slots=True)
class Command:
    """One command of a block: its words, and the file that receives its output, if any."""

    words: tuple[str, ...]
    target: str | None = None


def blocks(page: Path) -> list[Block]:
    """The blocks of code of a page."""
    text = page.read_text(encoding="utf-8")
    return [
        Block(
            found["language"],
            found["title"] or "",
            re.sub(rf"^{found['indent']}", "", found["text"], flags=re.MULTILINE),
            text.count("\n", 0, found.start()) + 1,
        )
        for found in _FENCE.finditer(text)
    ]


def commands(text: str) -> Iterator[Command]:
    """The commands of a block, one a line; a line that ends in a backslash goes on."""
    for line in text.replace("\\\n", " ").splitlines():
        words = shlex.split(line, comments=True)
        if ">" in words:
            yield Command(tuple(words[: words.index(">")]), words[words.index(">") + 1])
        elif words:
            yield Command(tuple(words))


def plain_lines(text: str) -> list[str]:
    """The lines of an output without frames, empty lines and repeated spaces."""
    lines = (" ".join(_FRAME.sub(" ", line).split()) for line in text.splitlines())
    return [line for line in lines if line]


def missing_lines(expected: str, output: str) -> list[str]:
    """The expected lines that the output does not have in this order."""
    lines = iter(plain_lines(output))
    return [line for line in plain_lines(expected) if not any(_fits(line, each) for each in lines)]


def _fits(expected: str, line: str) -> bool:
    return re.fullmatch(".*".join(map(re.escape, expected.split("…"))), line) is not None
