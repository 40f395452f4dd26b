"""The report in a real browser without network:
`make test-browser`, since it needs Chromium, which tests alone do not.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from framework.report.html_page import html
from framework.report.model import Report
from tests.framework.report.reports import HARMFUL, busy, great, harmful, nothing

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.skipif(
    "MAINSTEM_BROWSER" not in os.environ, reason="needs Chromium: make test-browser"
)

LOOKS = {
    "light": ("light", 1280),
    "dark": ("dark", 1280),
    "phone": ("light", 360),
    "dark phone": ("dark", 360),
    "tablet": ("light", 768),
    "wide": ("light", 1920),
}
CONTRAST = """() => {
  const parse = (text) => { const n = text.match(/[\\d.]+/g).map(Number);
    return n.length < 4 ? [...n, 1] : n; };
  const over = (top, below) => [0, 1, 2].map((i) => top[i] * top[3] + below[i] * (1 - top[3]));
  const light = (c) => { const [r, g, b] = c.map((v) => { v /= 255;
    return v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  const behind = (node) => { const stack = [];
    for (let n = node; n; n = n.parentElement) stack.push(parse(getComputedStyle(n).backgroundColor));
    return stack.reverse().reduce((below, top) => over(top, below), [255, 255, 255]); };
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT), bad = [];
  for (let text; (text = walker.nextNode()); ) {
    const node = text.parentElement;
    if (!text.data.trim() || !node.checkVisibility() || node.closest("svg")) continue;
    if (["SCRIPT", "STYLE"].includes(node.tagName)) continue;
    const ground = behind(node), ink = over(parse(getComputedStyle(node).color), ground);
    const [high, low] = [light(ink), light(ground)].sort((a, b) => b - a);
    const ratio = (high + 0.05) / (low + 0.05);
    if (ratio < 4.5) bad.push(`${ratio.toFixed(2)} ${node.className} ${text.data.trim().slice(0, 30)}`);
  }
  return bad;
}"""
SMALL_TEXT = """() => {
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT), small = [];
  for (let text; (text = walker.nextNode()); ) {
    const node = text.parentElement;
    if (!text.data.trim() || !node.checkVisibility() || node.closest("title, script, style")) continue;
    const drawing = node.closest("svg");
    const scale = drawing ? drawing.getScreenCTM().d : 1;
    const size = parseFloat(getComputedStyle(node).fontSize) * scale;
    if (size < 11.99) small.push(`${size.toFixed(1)} ${node.tagName} ${text.data.trim().slice(0, 30)}`);
  }
  return small;
}"""
CUT = """() => [...document.querySelectorAll("main *, header *, footer *")].filter((node) => {
  if (!node.checkVisibility() || node.matches(".hidden, .preview, .preview *, .link")) return false;
  const box = node.getBoundingClientRect();
  return box.width > 0 && (box.left < -0.5 || box.right > innerWidth + 0.5);
}).map((node) => `${node.tagName} ${node.getAttribute("class")} ${node.textContent.trim().slice(0, 30)}`)"""
TORN = """() => [...document.querySelectorAll(".key")]
  .filter((node) => node.checkVisibility() && node.textContent.length < 30)
  .filter((node) => node.getBoundingClientRect().height > 30).map((node) => node.textContent)"""
EMPTY = """() => [...document.querySelectorAll("main > section, main h3, main table, main ul, main ol")]
  .filter((node) => node.checkVisibility() && !node.closest("#summary"))
  .map((node) => node.closest("section, [data-group], .scroll"))
  .filter((node) => !node.querySelector("[data-row]:not([hidden])"))
  .map((node) => node.outerHTML.slice(0, 80))"""
OPEN_ALL = "document.querySelectorAll('details').forEach((d) => { d.open = true; })"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    from playwright.sync_api import sync_playwright

    program = os.environ.get("MAINSTEM_CHROMIUM") or next(
        filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
    )
    assert program, "no Chromium on the path: install one, or name it in MAINSTEM_CHROMIUM"
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield opened
        opened.close()


class Opened:
    """A report in a browser; `requests`, `complaints` and `dialogs` hold what the page did."""

    def __init__(
        self, browser: Browser, file: Path, report: Report, look: str = "light", **context: Any
    ) -> None:
        scheme, width = LOOKS[look]
        file.write_text(html(report), encoding="utf-8", newline="\n")
        self.page: Page = browser.new_context(
            color_scheme=scheme, viewport={"width": width, "height": 900}, offline=True, **context
        ).new_page()
        self.requests: list[str] = []
        self.complaints: list[str] = []
        self.dialogs: list[str] = []
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("dialog", lambda dialog: (self.dialogs.append(dialog.message), dialog.dismiss()))
        self.page.goto(file.as_uri())


@pytest.mark.parametrize("look", LOOKS)
def test_the_page_opens_without_network_and_reads_well(browser: Browser, tmp_path: Path, look: str) -> None:
    opened = Opened(browser, tmp_path / "report.html", busy(), look)
    assert opened.requests == [(tmp_path / "report.html").as_uri()]
    assert opened.complaints == []
    assert opened.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    opened.page.evaluate(OPEN_ALL)
    assert opened.page.evaluate(CONTRAST) == []
    assert opened.page.evaluate(SMALL_TEXT) == []
    assert opened.page.evaluate(CUT) == []
    assert opened.page.evaluate(TORN) == []
    kept = os.environ.get("MAINSTEM_SCREENSHOTS")
    if kept:
        opened.page.screenshot(path=Path(kept) / f"report-{look.replace(' ', '-')}.png", full_page=True)


@pytest.mark.parametrize("look", ["light", "phone"])
def test_harmful_values_are_text(browser: Browser, tmp_path: Path, look: str) -> None:
    opened = Opened(browser, tmp_path / "report.html", harmful(), look)
    assert (opened.dialogs, opened.complaints, len(opened.requests)) == ([], [], 1)
    assert opened.page.locator("script").count() == 1
    assert opened.page.locator("img").count() == 0
    text = opened.page.evaluate("document.body.textContent")
    assert all(harm in text for harm in HARMFUL if harm.isprintable())
    assert opened.page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_the_switch_of_colours_overrules_the_system(browser: Browser, tmp_path: Path) -> None:
    page = Opened(browser, tmp_path / "report.html", busy(), "light").page
    ground = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(ground)
    page.get_by_label("dark").check(force=True)
    dark = page.evaluate(ground)
    assert dark != light
    for _ in range(20):  # the browser stores the choice in its own time, which may be after a reload at once
        page.reload()
        if page.evaluate(ground) == dark:
            break
        page.wait_for_timeout(100)
    assert page.evaluate(ground) == dark
    page.get_by_label("auto").check(force=True)
    assert page.evaluate(ground) == light


def test_tables_are_searched_and_sorted_by_keyboard(browser: Browser, tmp_path: Path) -> None:
    page = Opened(browser, tmp_path / "report.html", busy()).page
    names = page.locator("#tables tbody tr:visible th bdi:first-child")
    page.keyboard.press("/")
    page.keyboard.type("order_line")
    page.wait_for_function("document.getElementById('matches').textContent !== ''")
    assert names.all_text_contents() == ["shop.order_line"]
    page.keyboard.press("Escape")
    assert names.count() == 5
    rows = page.locator("#tables thead button", has_text="Rows")
    rows.focus()
    page.keyboard.press("Enter")
    assert names.all_text_contents()[0] == "shop.order_line"
    page.keyboard.press("Enter")
    assert names.all_text_contents()[:2] == ["depot.stock", "shop.price"]


def test_the_page_tells_all_without_its_script(browser: Browser, tmp_path: Path) -> None:
    opened = Opened(browser, tmp_path / "report.html", busy(), java_script_enabled=False)
    assert opened.page.locator("#tables tbody tr").count() == 5
    assert opened.page.locator("#theme").is_hidden()


def test_a_great_report_opens_at_once(browser: Browser, tmp_path: Path) -> None:
    page = Opened(browser, tmp_path / "report.html", great()).page
    seconds = page.evaluate("performance.getEntriesByType('navigation')[0].domContentLoadedEventEnd") / 1000
    print(
        f"200 tables, 50 runs: {(tmp_path / 'report.html').stat().st_size / 1e6:.1f} MB, there after "
        f"{seconds:.2f} s"
    )
    assert seconds < 5  # a second on a machine that has nothing else to do
    page.locator("#tables thead button", has_text="Applied").click()
    assert page.locator("#tables tbody tr").count() == 200


def test_an_empty_report_opens(browser: Browser, tmp_path: Path) -> None:
    opened = Opened(browser, tmp_path / "report.html", nothing(), "phone")
    assert (opened.complaints, opened.page.title()) == ([], "shop · Mainstem report · Nothing has run yet")


@pytest.mark.parametrize("look", ["light", "phone"])
def test_long_names_and_wide_tables_are_not_cut(browser: Browser, tmp_path: Path, look: str) -> None:
    page = Opened(browser, tmp_path / "report.html", great(30), look).page
    page.evaluate(OPEN_ALL)
    assert page.evaluate(CUT) == []
    assert page.evaluate(SMALL_TEXT) == []


@pytest.mark.parametrize("choice", ["auto", "dark"])
def test_a_dark_page_prints_dark_on_white(browser: Browser, tmp_path: Path, choice: str) -> None:
    page = Opened(browser, tmp_path / "report.html", busy(), "dark").page
    page.get_by_label(choice).check(force=True)
    page.evaluate(OPEN_ALL)
    page.set_viewport_size({"width": 718, "height": 1000})  # a sheet of A4 within its margins
    page.emulate_media(media="print", color_scheme="dark")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert page.evaluate(CONTRAST) == []
    assert page.evaluate(CUT) == []
    assert page.evaluate(SMALL_TEXT) == []
    kept = os.environ.get("MAINSTEM_SCREENSHOTS")
    if kept:
        page.screenshot(path=Path(kept) / f"report-print-{choice}.png", full_page=True)


@pytest.mark.parametrize(
    ("words", "sections"),
    [
        ("order_line", ["tables", "quality", "bad-values"]),
        ("gift_note", ["tables", "schema"]),
        ("502 gateway", ["quarantine"]),
        ("no such thing", []),
    ],
)
def test_a_filter_leaves_no_empty_section(
    browser: Browser, tmp_path: Path, words: str, sections: list[str]
) -> None:
    page = Opened(browser, tmp_path / "report.html", busy()).page
    page.get_by_role("searchbox").fill(words)
    page.wait_for_function("document.getElementById('matches').textContent !== ''")
    seen = "[...document.querySelectorAll('main > section:not(#summary)')].filter((s) => s.checkVisibility())"
    assert page.evaluate(f"{seen}.map((s) => s.id)") == sections
    assert page.evaluate(EMPTY) == []
    assert page.locator("#no-match").is_visible() is (sections == [])
    page.keyboard.press("Escape")
    assert page.evaluate(f"{seen}.length") == 8
    assert page.locator("#quality details").get_attribute("open") is None


def test_a_link_opens_the_panel_of_its_table(browser: Browser, tmp_path: Path) -> None:
    page = Opened(browser, tmp_path / "report.html", busy()).page
    panel = page.locator('[id="table-shop.orders"]')
    assert panel.get_attribute("open") is None
    page.locator("#tables tbody").get_by_role("link", name="shop.orders").click()
    page.wait_for_function("document.getElementById('table-shop.orders').open")
    assert panel.get_by_text("mainstem trace shop.orders id=VALUE").is_visible()
    page.goto(page.url.partition("#")[0] + "#table-shop.order_line")
    page.wait_for_function("document.getElementById('table-shop.order_line').open")


def test_a_trend_has_axes_with_values(browser: Browser, tmp_path: Path) -> None:
    page = Opened(browser, tmp_path / "report.html", busy()).page
    messages = page.locator("#runs .trend").first
    assert messages.locator(".y").all_text_contents() == ["500", "250", "0"]
    assert messages.locator(".x span").all_text_contents() == ["2024-03-01", "2024-03-02"]
