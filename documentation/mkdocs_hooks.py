"""Makes links from a page to files outside docs/ work on the site.

In the repository such a link opens the file. On the site it leads to the file's page at `repo_url`; where
mkdocs.yml has no `repo_url`, the text stays without a link. A link to a file that does not exist is left to
mkdocs, which refuses it.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

_LINK = re.compile(r"(?<!!)\[(?P<text>[^\]]+)\]\((?P<target>\.\./[^)\s#]+)(?P<anchor>#[^)\s]*)?\)")


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """The text of a page with its links to the repository's files as the site needs them; mkdocs calls it."""
    return repository_links(
        markdown, page=Path(page.file.abs_src_path), docs=Path(config["docs_dir"]), url=config["repo_url"]
    )


def repository_links(markdown: str, *, page: Path, docs: Path, url: str | None) -> str:
    """The text with each link to an existing file outside `docs` as a link to `url`, or as its text alone."""

    def replaced(link: re.Match[str]) -> str:
        target = (page.parent / link["target"]).resolve()
        if target.is_relative_to(docs.resolve()) or not target.exists():
            return link[0]
        if not url:
            return link["text"]
        place = target.relative_to(docs.resolve().parent).as_posix()
        return f"[{link['text']}]({url.rstrip('/')}/blob/main/{place}{link['anchor'] or ''})"

    return _LINK.sub(replaced, markdown)
