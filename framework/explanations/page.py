"""The page `docs/errors.md`."""

from __future__ import annotations

from collections.abc import Iterator

from framework.explanations import CHAPTERS, EXPLANATIONS, Explanation

BEGIN_AGAIN = "Begin again in Operations"
"""How an explanation names the list of what to delete and to create."""
_LINK = "[Begin again](operations.md#begin-again)"
_HEAD = """\
# Errors

Every error of Mainstem has a code, and says what was found, where, and what to do. `mainstem explain CODE`
prints what is on this page. The codes are stable: compare them in scripts, and never the text.

Exit codes of commands: 0 everything was applied, 1 failure, 2 wrong usage or configuration, 3 a table is
parked or a quality rule is broken.

<!-- made by `make errors-page` from framework/explanations/ -->
"""


def markdown_page() -> str:
    """All error codes with their explanations, as Markdown."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield _HEAD
    for title, chapter in CHAPTERS.items():
        codes = ", ".join(
            f"[{entry.code}](#{_heading(entry).lower().replace(' ', '-')})" for entry in chapter
        )
        yield f"- {title}: {codes}"
    for title, chapter in CHAPTERS.items():
        yield f"\n## {title}"
        for entry in chapter:
            yield from _entry_lines(entry)


def _entry_lines(entry: Explanation) -> Iterator[str]:
    yield f"\n### {_heading(entry)}\n"
    yield f"{entry.meaning}\n"
    if entry.former:
        yield f"Former name: {', '.join(entry.former)}.\n"
    yield f"- **Why:** {entry.cause}"
    yield f"- **What to do:** {entry.remedy.replace(BEGIN_AGAIN, _LINK)}"
    yield f"- **Example:** {entry.example}"


def _heading(entry: Explanation) -> str:
    """The code; with more words where an error has the same letters: a page has each anchor once."""
    is_error_too = entry.code.islower() and entry.code.upper() in EXPLANATIONS
    return f"{entry.code} of a cell" if is_error_too else entry.code
