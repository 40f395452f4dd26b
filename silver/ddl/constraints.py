"""Constraints and indexes among the clauses of a table."""

from __future__ import annotations

from silver.ddl.tokens import Cursor, UnsupportedDdl

PARTITION_ROWS = "a partition's rows change, and the statement does not say which"
INDEX_WORDS = frozenset({"INDEX", "KEY"})
_EXISTENCE = (("IF", "NOT", "EXISTS"), ("IF", "EXISTS"))


def take_existence(cursor: Cursor) -> None:
    """Skips IF EXISTS or IF NOT EXISTS."""
    for words in _EXISTENCE:
        cursor.take(*words)


def is_element(cursor: Cursor) -> bool:
    """Whether a constraint or an index starts here, not a column with such a name."""
    word, following = cursor.word(), cursor.word(1)
    if word in INDEX_WORDS:
        return cursor.dialect in ("mysql", "tsql", "")
    if word in ("CONSTRAINT", "PRIMARY", "UNIQUE", "FOREIGN", "CHECK", "FULLTEXT", "SPATIAL"):
        return True
    if word == "CLUSTERING":
        return following in INDEX_WORDS
    pairs = {
        "PERIOD": ("FOR",),
        "EXCLUDE": ("USING", "("),
        "VECTOR": ("INDEX", "KEY"),
        "SUPPLEMENTAL": ("LOG",),
        "SHARD": ("KEY",),
    }
    if word in ("CLUSTERED", "DEFAULT"):
        return cursor.dialect in ("tsql", "")
    return following in pairs.get(word, ())


def read_element(cursor: Cursor) -> tuple[str, ...] | None:
    """Skips a constraint or an index, and returns its columns if it is the primary key.

    Raises:
        UnsupportedDdl: The primary key is given by the name of an index.
    """
    if cursor.take("CONSTRAINT"):
        take_existence(cursor)
        if cursor.is_name() and not cursor.at("PRIMARY", "KEY"):
            cursor.path()
    if not cursor.take("PRIMARY", "KEY"):
        cursor.skip_clause()
        return None
    take_existence(cursor)
    while cursor.word() not in ("(", "", ","):
        if cursor.at("USING", "INDEX"):
            raise UnsupportedDdl("the primary key's columns are named by an index")
        cursor.i += 1
    keys = cursor.names()
    cursor.skip_clause()
    return keys
