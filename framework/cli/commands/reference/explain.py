"""`mainstem explain`: says what an error code means, why the error happens and what to do."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Iterator
from dataclasses import asdict

from framework.cli.options import Options
from framework.cli.terminal import say, say_json, say_text
from framework.errors import ConfigurationError, nearest
from framework.explanations import CHAPTERS, EXPLANATIONS, FORMER_NAMES, Explanation
from framework.explanations.page import markdown_page
from framework.text.tables import TextTable

_WIDEST = 100


def run(options: Options) -> int:
    """Print the explanation of one error code, all codes, or the page of all errors."""
    if options.markdown:
        say_text(markdown_page())
    elif options.code is None:
        _print_all(is_json=options.json)
    else:
        entry = explanation_of(options.code)
        if options.json:
            say_json(asdict(entry))
        else:
            say(explanation_lines(entry, _width()))
    return 0


def explanation_of(code: str) -> Explanation:
    """The explanation of an error code or a reason, by a former name, too; best one in just these letters.

    Raises:
        ConfigurationError: UNKNOWN_CODE, with the most similar code.
    """
    names = {**FORMER_NAMES, **EXPLANATIONS}
    known = next((names[name] for name in (code, code.upper(), code.lower()) if name in names), None)
    if known is None:
        close = nearest(code, EXPLANATIONS)
        hint = f"did you mean {close}? " if close else ""
        raise ConfigurationError(
            "UNKNOWN_CODE",
            found=f"no error code {code!r}",
            where="explain",
            action=f"{hint}`mainstem explain` lists all codes",
        )
    return known


def explanation_lines(entry: Explanation, width: int) -> Iterator[str]:
    """An explanation as lines of at most this width."""
    yield entry.code
    parts = (
        ("means", entry.meaning),
        ("why", entry.cause),
        ("do", entry.remedy),
        ("example", entry.example),
        *((("formerly", f"{', '.join(entry.former)}."),) if entry.former else ()),
    )
    for name, text in parts:
        yield from textwrap.wrap(
            text,
            width,
            initial_indent=f"  {f'{name}:':<9}",
            subsequent_indent=" " * 11,
            break_on_hyphens=False,
            break_long_words=False,
        )


def _print_all(*, is_json: bool) -> None:
    if is_json:
        say_json({"errors": [asdict(entry) for entry in EXPLANATIONS.values()]})
    else:
        say(_all_lines())


def _all_lines() -> Iterator[str | TextTable]:
    widest = max(map(len, EXPLANATIONS))
    for title, chapter in CHAPTERS.items():
        yield f"{title}:"
        yield TextTable(("", ""), [(f"{entry.code:<{widest}}", entry.meaning) for entry in chapter], indent=2)
        yield ""
    yield "`mainstem explain CODE` says why an error happens and what to do"


def _width() -> int:
    return min(shutil.get_terminal_size().columns, _WIDEST)
