"""The generated pages, by their paths in the repository."""

from __future__ import annotations

from collections.abc import Callable

from documentation.configuration_page import configuration_page
from documentation.tables_page import tables_page

PAGES: dict[str, Callable[[], str]] = {
    "docs/reference/configuration.md": configuration_page,
    "docs/reference/tables.md": tables_page,
}
