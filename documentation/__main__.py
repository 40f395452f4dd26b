"""Writes the generated pages into docs/reference."""

from __future__ import annotations

from pathlib import Path

from documentation.pages import PAGES

if __name__ == "__main__":
    for name, page in PAGES.items():
        Path(__file__).parents[1].joinpath(name).write_text(page(), encoding="utf-8")
