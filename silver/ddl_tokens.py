"""Statement text as tokens, and a cursor over them.

The tokens are sqlglot's, by dialect, with its keywords switched off: strings, quoted names and comments are what
differs between databases and what it knows well. Words stay words, so that any of them can be a name.
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

from silver.ddl_words import VERBS

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
_PIECE = re.compile(
    r"""(?P<kept>'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*"|`[^`]*`|--[ \t][^\n]*|\#[^\n]*)"""
    r"""|(?P<open>/\*M?!(?P<version>\d{5,6})?)|(?P<comment>/\*.*?\*/)|(?P<close>\*/)""",
    re.DOTALL,
)


class Unclear(Exception):
    """Text that the rules do not cover; its message says what and where."""


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


@dataclass(frozen=True, slots=True)
class Source:
    """A text and its tokens; `words` are upper-cased, and a mark stands for a quoted name, a text or a number."""

    text: str
    dialect: str
    tokens: list[Token]
    words: list[str]


class Cursor:
    """A place in a text's tokens, and where they end for this reader."""

    __slots__ = ("dialect", "end", "i", "source", "tokens", "words")

    def __init__(self, source: Source, start: int, end: int) -> None:
        self.source, self.i, self.end = source, start, end
        self.dialect, self.tokens, self.words = source.dialect, source.tokens, source.words

    @classmethod
    def of(cls, text: str, dialect: str, quoting: str | None = None) -> Cursor:
        """A cursor over a whole text, read with the quoting rules of `quoting` (else of the dialect).

        Raises:
            Unclear: The text does not read as SQL (a string without an end).
        """
        try:
            tokens = _TOKENIZERS[quoting or dialect](dialect=_DIALECTS[quoting or dialect]).tokenize(text)
        except SqlglotError as error:
            raise Unclear("not readable as SQL") from error
        return cls(Source(text, dialect, tokens, [_word(t) for t in tokens]), 0, len(tokens))

    def between(self, start: int, end: int) -> Cursor:
        """A cursor over some of the tokens."""
        return Cursor(self.source, start, end)

    def word(self, ahead: int = 0) -> str:
        """The word here or further on; empty past the end."""
        at = self.i + ahead
        return self.words[at] if at < self.end else ""

    def is_end(self) -> bool:
        """Whether nothing is left."""
        return self.i >= self.end

    def at(self, *words: str) -> bool:
        """Whether these words come next."""
        stop = self.i + len(words)
        return stop <= self.end and all(a == b for a, b in zip(self.words[self.i : stop], words, strict=True))

    def take(self, *words: str) -> bool:
        """Goes past these words if they come next."""
        if self.at(*words):
            self.i += len(words)
            return True
        return False

    def take_any(self, words: frozenset[str]) -> str:
        """Goes past one of these words; empty when none is here."""
        word = self.word()
        if word in words:
            self.i += 1
            return word
        return ""

    def need(self, *words: str) -> None:
        """Goes past these words, which must come next."""
        if not self.take(*words):
            raise self.unclear()

    def unclear(self) -> Unclear:
        """The complaint about what is here."""
        return Unclear(f"not understood at: {self.slice(self.i, min(self.i + 8, self.end))}" if self.i < self.end else "ends too soon")

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
        """The name here: as written if quoted, else as the dialect folds it."""
        if not self.is_name():
            raise self.unclear()
        token = self.tokens[self.i]
        self.i += 1
        name = str(token.text)
        if token.token_type is not TokenType.VAR:
            return name
        if self.dialect in ("oracle", "db2"):
            return name.upper()
        return name.lower() if self.dialect == "postgres" else name

    def names(self) -> tuple[str, ...]:
        """A list of names in parentheses; lengths and directions of key parts are passed over."""
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
        """A name with its qualifiers; an empty one stands for a level left out (`db..t`)."""
        parts = [self.name()]
        while self.take("."):
            parts.append("" if self.word() == "." else self.name())
        return tuple(parts)

    def group(self) -> Cursor:
        """What the parentheses here hold; the cursor goes past them."""
        if self.word() != "(":
            raise self.unclear()
        start, self.i = self.i + 1, self.closing(self.i) + 1
        return self.between(start, self.i - 1)

    def closing(self, at: int) -> int:
        """Where the parenthesis at a place is closed.

        Raises:
            Unclear: It is not.
        """
        depth = 0
        for i in range(at, self.end):
            word = self.words[i]
            if word == "(":
                depth += 1
            elif word == ")":
                depth -= 1
                if depth == 0:
                    return i
        raise Unclear("a parenthesis is not closed")

    def skip_clause(self) -> None:
        """Goes to the comma that ends this clause, to the next clause's verb, or to the end."""
        while self.i < self.end and self.words[self.i] != ",":
            if self.words[self.i] in VERBS or self.at("PARTITION", "BY"):
                return
            self.i = self.closing(self.i) + 1 if self.words[self.i] == "(" else self.i + 1

    def skip_to_comma(self) -> None:
        """Goes to the next comma outside parentheses, or to the end, whatever is in between."""
        depth = 0
        while self.i < self.end and (depth or self.words[self.i] != ","):
            depth += {"(": 1, ")": -1}.get(self.words[self.i], 0)
            self.i += 1

    def skip_rest(self) -> None:
        """Goes to the end."""
        self.i = self.end
