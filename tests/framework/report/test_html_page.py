from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest

from framework.report.html_page import html, preview, raw, shown
from framework.report.model import Report
from framework.report.table_panels import MOST_PANELS
from tests.framework.report.reports import HARMFUL, busy, great, harmful, nothing

VOID = {"meta", "link", "input", "br"}


class Reader(HTMLParser):
    """A page as its elements: all tags, attributes by name, and the text outside of style and script."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str, str]] = []
        self.text: list[str] = []
        self.open: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if not {"style", "script"} & set(self.open):
            self.text.append(data)


def test_elements_are_closed_in_order() -> None:
    for report in (busy(), nothing(), harmful()):
        assert Reader(html(report)).open == []


def test_no_address_leaves_the_page() -> None:
    page = Reader(html(busy()))
    addresses = [
        value
        for _, name, value in page.attributes
        if name in ("src", "href", "srcset", "action", "data", "poster", "xlink:href")
    ]
    assert addresses
    assert all(address.startswith("#") or address == "data:," for address in addresses)
    assert not re.search(
        r"url\(|@import|https?:", re.sub(r"<(script)>.*?</\1>", "", html(busy()), flags=re.DOTALL)
    )


def test_values_never_become_elements_or_attributes() -> None:
    plain, page = Reader(html(busy())), Reader(html(harmful()))
    assert page.tags.count("script") == 1
    assert set(page.tags) <= {*plain.tags, "p", "table"}
    assert not [name for _, name, _ in page.attributes if name.startswith("on")]
    text = "".join(page.text)
    for harm in HARMFUL:
        if harm.isprintable():
            assert harm in text
    assert "{{ 7 * 7 }}" in text


def test_characters_that_cannot_be_seen_are_named() -> None:
    page = html(harmful())
    for character in "\x00\x1b\u2028\u2029\u202e":
        assert character not in page
        assert f"<i class=u>U+{ord(character):04X}</i>" in page
    assert "שלום עולם" in page


def test_foreign_text_keeps_its_direction_to_itself() -> None:
    assert shown("a<b") == "<bdi>a&lt;b</bdi>"
    assert raw("a\nb\tc") == "a\nb\tc"
    assert preview("a\nb" * 500).count("…") == 1


def test_only_the_page_s_own_script_and_style_may_run() -> None:
    page = html(busy())
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]+)"', page)
    assert policy
    assert "default-src &#39;none&#39;" in policy[1]
    assert "unsafe" not in policy[1]
    assert not [tag for tag, name, _ in Reader(page).attributes if name == "style"]


def test_counts_states_reasons_and_failing_keys_are_shown() -> None:
    text = " ".join("".join(Reader(html(busy())).text).split())
    for expected in (
        "Needs attention", "1 table parked: shop.price", "two rows of key 7", "5,564 messages",
        "4,966 changes", "306 merged from two halves",
        "order_id=917, line_no=2", "could not be judged", "offset 9914", "502 Bad Gateway",
        "0000-00-00 00:00:00", "ALTER TABLE orders ADD COLUMN gift_note", "KAFKA_UNREACHABLE", "has stopped",
        "append-only",
    ):  # fmt: skip
        assert expected in text, expected


@pytest.mark.parametrize(
    "report", [nothing(), Report("shop", "/srv", "0.1.0", nothing().generated_at)], ids=["configured", "bare"]
)
def test_a_pipeline_that_has_not_run_has_a_page(report: Report) -> None:
    text = " ".join("".join(Reader(html(report)).text).split())
    assert "Nothing has run yet" in text
    assert "No quality check has run yet." in text


def test_two_hundred_tables_and_fifty_runs_stay_below_five_megabytes() -> None:
    page = html(great())
    assert page.count("table_with_a_long_name_199") > 1
    assert len(page.encode()) < 5_000_000


def words(report: Report) -> str:
    return " ".join("".join(Reader(html(report)).text).split())


def test_a_check_is_said_in_a_sentence() -> None:
    text = words(busy())
    assert "Expected that order_id is in shop.orders; found: 2 of 2,011 rows break it." in text
    assert "Not known whether the replica equals the snapshot of the source: not judged." in text
    assert "id is never null. 1,204 rows" in text


def test_failed_checks_come_before_the_fold_of_those_that_hold() -> None:
    page = html(busy())
    quality = page[page.index('<section id="quality">') : page.index('<section id="quarantine">')]
    assert quality.index("order_id is in shop.orders") < quality.index("<summary>2 checks hold")
    assert quality.index("<details") < quality.index("id is never null")


def test_the_name_of_a_table_leads_to_its_panel() -> None:
    page = html(busy())
    assert '<a href="#table-shop.orders"><bdi>shop.orders</bdi></a>' in page
    panel = page[page.index('id="table-shop.orders"') :].partition("\n</div></div></details>")[0]
    for expected in (
        "gift_note", "timestamp_ntz", "2 checks hold", "40 inserted, 12 updated, 3 deleted",
        "mainstem trace shop.orders id=VALUE", "column gift_note varchar added", "0000-00-00 00:00:00",
        "Applied through <bdi>position 1709367960000000087</bdi>", "Rows changed by each run",
    ):  # fmt: skip
        assert expected in panel, expected


@pytest.mark.slow
def test_a_page_of_ten_thousand_tables_says_what_it_leaves_out() -> None:
    report = great(10_000, 2)
    page = html(report)
    assert len(page.encode()) < 10_000_000
    assert page.count('<details class="panel"') == MOST_PANELS
    text = words(report)
    assert "9,000 more tables: the report's JSON has them all." in text
    assert "in 10,000 tables" in text
    assert "300 more checks failed" in text
    assert "and 38,700 more checks" in text
