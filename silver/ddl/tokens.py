"""Statement text as tokens, and a cursor over them.

sqlglot makes the tokens, by dialect, with its keywords switched off: it knows well how strings, quoted names
and comments differ between databases. Words stay words, so that any of them can be a name.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import ClassVar

from sqlglot.dialects.dialect import Dialect
from sqlglot.dialects.mysql import MySQL
from sqlglot.dialects.oracle import Oracle
from sqlglot.dialects.postgres import Postgres
from sqlglot.dialects.tsql import TSQL
from sqlglot.errors import SqlglotError
from sqlglot.tokenizer_core import Token, TokenType
from sqlglot.tokens import Tokenizer

from silver.ddl.keywords import VERBS

QUOTED, TEXT, NUMBER = '"', "'", "0"

STRINGS = frozenset(
    {
        TokenType.STRING,
        TokenType.NATIONAL_STRING,
        TokenType.RAW_STRING,
        TokenType.HEREDOC_STRING,
        TokenType.BYTE_STRING,
        TokenType.UNICODE_STRING,
        TokenType.HEX_STRING,
        TokenType.BIT_STRING,
    }
)
_SANDBOX_VERSION = 999_999
LONGEST_TEXT = 1_000_000
"""Characters. Longer statement texts are not read."""
DEEPEST = 1_000
"""The most levels of nested parentheses."""
_PIECE = re.compile(
    r"""(?P<kept>'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*"|`[^`]*`|--[ \t][^\n]*|\#[^\n]*)"""
    r"""|(?P<open>/\*M?!(?P<version>\d{5,6})?)|(?P<comment>/\*.*?\*/)|(?P<close>\*/)"""
    r"""|(?P<endless>['"`]|/\*)""",
    re.DOTALL,
)


class UnsupportedDdl(Exception):
    """DDL that the rules do not cover; the message says what and where."""


class _MySQLTokens(MySQL.Tokenizer):
    KEYWORDS: ClassVar[dict[str, TokenType]] = {}
    COMMANDS: ClassVar[set[TokenType]] = set()


class _OracleTokens(Oracle.Tokenizer):
    KEYWORDS: ClassVar[dict[str, TokenType]] = {}
    COMMANDS: ClassVar[set[TokenType]] = set()
    NESTED_COMMENTS = False


class _PostgresTokens(Postgres.Tokenizer):
    KEYWORDS: ClassVar[dict[str, TokenType]] = {}
    COMMANDS: ClassVar[set[TokenType]] = set()


class _TSQLTokens(TSQL.Tokenizer):
    KEYWORDS: ClassVar[dict[str, TokenType]] = {}
    COMMANDS: ClassVar[set[TokenType]] = set()


_TOKENIZERS: dict[str, type[Tokenizer]] = {
    "mysql": _MySQLTokens,
    "oracle": _OracleTokens,
    "db2": _OracleTokens,
    "postgres": _PostgresTokens,
    "tsql": _TSQLTokens,
}
_DIALECTS = {name: Dialect.get_or_raise("oracle" if name == "db2" else name) for name in _TOKENIZERS}
DIALECTS = frozenset(_TOKENIZERS)


def uncommented(text: str) -> str:
    """MySQL's versioned comments (`/*!50100 … */`, `/*M! … */`) as the text that the server executes."""
    if "/*!" not in text and "/*M!" not in text:
        return text
    out: list[str] = []
    position, is_open = 0, False
    while (found := _PIECE.search(text, position)) is not None:
        out.append(text[position : found.start()])
        if (
            found["endless"] is not None
        ):  # no later mark has an end either, and looking for one from each mark would take too long
            position = found.start()
            break
        position = found.end()
        if found["kept"] is not None:
            out.append(found["kept"])
        elif found["open"] is not None and int(found["version"] or 0) >= _SANDBOX_VERSION:
            position = end if (end := text.find("*/", position) + 2) > 1 else len(text)
        elif found["open"] is not None:
            is_open = True
            out.append(" ")
        elif found["close"] is not None and not is_open:
            out.append("*/")
        else:
            is_open = is_open and found["close"] is None
            out.append(" ")
    out.append(text[position:])
    return "".join(out)


def _word(token: Token) -> str:
    kind = token.token_type
    if kind is TokenType.VAR:
        return str(token.text).upper()
    if kind is TokenType.IDENTIFIER:
        return QUOTED
    if kind in STRINGS:
        return TEXT
    return NUMBER if kind is TokenType.NUMBER else str(token.text)


def _closings(words: list[str]) -> dict[int, int]:
    """The places of closing parentheses by the places of the opening ones.

    Raises:
        UnsupportedDdl: The parentheses are nested too deeply.
    """
    opened: list[int] = []
    found: dict[int, int] = {}
    for i, word in enumerate(words):
        if word == "(":
            opened.append(i)
            if len(opened) > DEEPEST:
                raise UnsupportedDdl("parentheses are nested too deeply")
        elif word == ")" and opened:
            found[opened.pop()] = i
    return found


@dataclass(frozen=True, slots=True)
class Source:
    """A text and its tokens.

    `words` are in upper case; quoted names, texts and numbers are a placeholder in it.
    """

    text: str
    dialect: str
    tokens: list[Token]
    words: list[str]
    closings: dict[int, int]


class Cursor:
    """A place among the tokens of a text, and where they end for this reader."""

    __slots__ = ("dialect", "end", "i", "source", "tokens", "words")

    def __init__(self, source: Source, start: int, end: int) -> None:
        self.source, self.i, self.end = source, start, end
        self.dialect, self.tokens, self.words = source.dialect, source.tokens, source.words

    @classmethod
    def of(cls, text: str, dialect: str, quoting: str | None = None) -> Cursor:
        """A cursor over a whole text, read with the quoting rules of `quoting` (else of the dialect).

        Raises:
            UnsupportedDdl: The text does not read as SQL (a string without an end).
        """
        try:
            tokens = _TOKENIZERS[quoting or dialect](dialect=_DIALECTS[quoting or dialect]).tokenize(text)
        except SqlglotError as error:
            raise UnsupportedDdl("not readable as SQL") from error
        words = [_word(t) for t in tokens]
        return cls(Source(text, dialect, tokens, words, _closings(words)), 0, len(tokens))

    def between(self, start: int, end: int) -> Cursor:
        """A cursor over some of the tokens."""
        return Cursor(self.source, start, end)

    def word(self, ahead: int = 0) -> str:
        """The word here, or `ahead` words further; empty after the end."""
        at = self.i + ahead
        return self.words[at] if at < self.end else ""

    def is_end(self) -> bool:
        """Whether no tokens are left."""
        return self.i >= self.end

    def at(self, *words: str) -> bool:
        """Whether these words come next."""
        stop = self.i + len(words)
        return stop <= self.end and all(a == b for a, b in zip(self.words[self.i : stop], words, strict=True))

    def take(self, *words: str) -> bool:
        """Skips these words if they come next, and returns whether they did."""
        if self.at(*words):
            self.i += len(words)
            return True
        return False

    def take_any(self, words: frozenset[str]) -> str:
        """Skips one of these words and returns it; empty when none of them is here."""
        word = self.word()
        if word in words:
            self.i += 1
            return word
        return ""

    def need(self, *words: str) -> None:
        """Skips these words, which must come next."""
        if not self.take(*words):
            raise self.unsupported()

    def unsupported(self) -> UnsupportedDdl:
        """The error that names the text here."""
        return UnsupportedDdl(
            f"not understood at: {self.slice(self.i, min(self.i + 8, self.end))}"
            if self.i < self.end
            else "ends too soon"
        )

    def slice(self, start: int, end: int) -> str:
        """The text of some tokens as written."""
        if start >= end:
            return ""
        return self.source.text[self.tokens[start].start : self.tokens[end - 1].end + 1]

    def raw(self) -> str:
        """The text of the token here as written."""
        return self.slice(self.i, self.i + 1)

    def is_name(self) -> bool:
        """Whether a name can start here."""
        if self.i >= self.end:
            return False
        token = self.tokens[self.i]
        if token.token_type is TokenType.STRING:
            return self.raw().startswith('"')
        return token.token_type is TokenType.VAR or token.token_type is TokenType.IDENTIFIER

    def name(self) -> str:
        """Reads the name here: as it is written if quoted, else in the dialect's letter case."""
        if not self.is_name():
            raise self.unsupported()
        token = self.tokens[self.i]
        self.i += 1
        name = str(token.text)
        if token.token_type is not TokenType.VAR:
            return name
        if self.dialect in ("oracle", "db2"):
            return name.upper()
        return name.lower() if self.dialect == "postgres" else name

    def comment(self) -> str | None:
        """Reads the text of a comment here, perhaps after `=`, and skips it; None where it is no text."""
        self.take("=")
        if self.is_end():
            raise self.unsupported()
        text = str(self.tokens[self.i].text) if self.word() == TEXT else None
        self.i += 1
        return text

    def names(self) -> tuple[str, ...]:
        """Reads a list of names in parentheses; skips lengths and directions of key parts."""
        inner, found = self.group(), []
        while not inner.is_end():
            found.append(inner.name())
            if inner.word() == "(":
                inner.group()
            inner.take_any(frozenset({"ASC", "DESC"}))
            if not inner.is_end():
                inner.need(",")
        return tuple(found)

    def path(self) -> tuple[str, ...]:
        """Reads a name with its qualifiers; an empty one stands for a level that is left out (`db..t`)."""
        parts = [self.name()]
        while self.take("."):
            parts.append("" if self.word() == "." else self.name())
        return tuple(parts)

    def group(self) -> Cursor:
        """Skips the parentheses here, and returns a cursor over their content."""
        if self.word() != "(":
            raise self.unsupported()
        start, self.i = self.i + 1, self.closing(self.i) + 1
        return self.between(start, self.i - 1)

    def closing(self, at: int) -> int:
        """The place where the parenthesis at a place is closed.

        Raises:
            UnsupportedDdl: It is not closed.
        """
        found = self.source.closings.get(at, self.end)
        if found >= self.end:
            raise UnsupportedDdl("a parenthesis is not closed")
        return found

    def skip_clause(self) -> None:
        """Skips to the comma that ends this clause, to the verb of the next clause, or to the end."""
        while self.i < self.end and self.words[self.i] != ",":
            if self.words[self.i] in VERBS or self.at("PARTITION", "BY"):
                return
            self.i = self.closing(self.i) + 1 if self.words[self.i] == "(" else self.i + 1

    def skip_to_comma(self) -> None:
        """Skips to the next comma outside parentheses, or to the end."""
        depth = 0
        while self.i < self.end and (depth or self.words[self.i] != ","):
            depth += {"(": 1, ")": -1}.get(self.words[self.i], 0)
            self.i += 1

    def skip_rest(self) -> None:
        """Skips to the end."""
        self.i = self.end
