"""Takes the picture of the report that the docs show: `make demo report-picture`.

It drives a Chromium of the machine, as `make test-browser` does.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

_SIZE = {"width": 1200, "height": 900}
_PROGRAMS = ("chromium", "chromium-browser", "google-chrome")


def take(page: Path, picture: Path) -> None:
    """Write the upper part of a report, in its light colours, as a PNG."""
    from playwright.sync_api import sync_playwright

    program = os.environ.get("MAINSTEM_CHROMIUM") or next(filter(None, map(shutil.which, _PROGRAMS)), None)
    if program is None:
        raise SystemExit("no Chromium on the path: install one, or name it in MAINSTEM_CHROMIUM")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        opened = browser.new_page(color_scheme="light", viewport=_SIZE)
        opened.goto(page.resolve().as_uri())
        opened.screenshot(path=picture)
        browser.close()


if __name__ == "__main__":
    take(Path(sys.argv[1]), Path(sys.argv[2]))
