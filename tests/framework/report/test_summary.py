from __future__ import annotations

import json
import time
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from framework.report.flow_layout import balance, flow
from framework.report.json_document import document, json_text
from framework.report.model import Account, OutcomeCount, Refusal, Report, Table, TableKey, Waiting
from framework.report.summary import findings, level, source_facts, table_facts, totals
from framework.report.trend_layout import axis_top, trends
from tests.framework.report.reports import NOW, ago, busy, great, harmful, nothing


def test_totals_are_sums_of_what_the_tables_hold() -> None:
    sums = totals(busy())
    assert (sums.messages, sums.changes, sums.merged) == (5_564, 4_966, 612)
    assert (sums.control_events, sums.duplicates, sums.halves, sums.excluded) == (98, 61, 44, 120)
    assert (sums.waiting, sums.quarantined, sums.bad_values, sums.late) == (3, 7, 15, 8)
    assert (sums.checks_passed, sums.checks_failed, sums.checks_warned, sums.checks_unjudged) == (2, 1, 1, 1)


def test_rows_are_unknown_when_one_table_s_are() -> None:
    assert totals(busy()).rows is None
    counted = tuple(replace(table, rows=10) for table in busy().tables)
    assert totals(replace(busy(), tables=counted)).rows == 50


def test_a_table_is_behind_by_the_batches_that_hold_its_changes_and_that_it_has_not_applied() -> None:
    price = next(line for line in table_facts(busy()) if line.table.table_key.table == "price")
    assert price.behind == 1
    place = TableKey("orders", "shop", None, "orders")
    report = replace(
        nothing(),
        tables=(Table(place, "active", batch=1000),),
        outcomes=(
            OutcomeCount(place, "row", 9, batches=(3000, 2000, 1000)),
            OutcomeCount(place, "ddl", 1, batches=(3000,)),
            OutcomeCount(place, "half", 1, batches=(4000,)),
        ),
    )
    assert [line.behind for line in table_facts(report)] == [2]


def test_parked_tables_come_first() -> None:
    assert [line.table.table_key.name for line in table_facts(busy())][:2] == [
        "shop.price",
        "crm.public.customer",
    ]


def test_an_idle_source_is_as_fresh_as_its_last_heartbeat() -> None:
    place = TableKey("orders", "shop", None, "orders")
    report = replace(
        nothing(),
        outcomes=(
            OutcomeCount(place, "row", 9, 0, ago(hours=9)),
            OutcomeCount(TableKey("orders"), "heartbeat", 1, 0, ago(minutes=1), ago(seconds=30)),
        ),
    )
    (source,) = source_facts(report)
    assert source.age == timedelta(minutes=1)
    assert source.delay == timedelta(seconds=30)


def test_a_source_that_left_the_configuration_is_still_reported() -> None:
    report = replace(nothing(), outcomes=(OutcomeCount(TableKey("gone", "shop", None, "orders"), "row", 9),))
    assert [(source.name, source.is_configured) for source in source_facts(report)] == [
        ("gone", False),
        ("orders", True),
    ]


def test_the_verdict_is_the_worst_finding() -> None:
    assert level(busy()) == "fail"
    assert level(nothing()) == "empty"
    well = replace(nothing(), outcomes=(OutcomeCount(TableKey("orders"), "heartbeat", 1),))
    assert (level(well), findings(well)) == ("ok", [])
    assert level(replace(well, refusals=busy().refusals)) == "warn"


def test_quarantine_alone_is_a_warning_and_a_stopped_source_a_failure() -> None:
    said = {finding.section: finding.level for finding in findings(busy())}
    assert said["quarantine"] == "warn"
    assert said["freshness"] == "fail"


def test_ribbons_are_as_wide_as_their_share_and_stay_inside_the_drawing() -> None:
    drawn = flow(great())
    assert drawn is not None
    assert sum(node.kind == "table" for node in drawn.nodes) == 14
    assert any(node.label == "187 more tables" for node in drawn.nodes)
    assert all(node.y >= 0 and node.y + node.height <= drawn.height for node in drawn.nodes)
    assert flow(nothing()) is None


def accounted(messages: int, *outcomes: OutcomeCount, **more: Any) -> Report:
    return replace(nothing(), messages=messages, outcomes=outcomes, **more)


ITEM = TableKey("orders", "shop", None, "item")
ADDING_UP = [
    accounted(196, OutcomeCount(ITEM, "row", 136, 22), OutcomeCount(TableKey("orders"), "heartbeat", 29),
        OutcomeCount(ITEM, "duplicate", 7),
              OutcomeCount(ITEM, "half", 24), OutcomeCount(TableKey("orders"), "quarantined", 5),
              refusals=(Refusal("orders", "datahub_blob", "empty", 2, NOW, NOW),)),
    accounted(10, OutcomeCount(ITEM, "row", 6, 2), OutcomeCount(ITEM, "half", 4),
        waiting=(Waiting(ITEM, 2, NOW),)),
    accounted(9, OutcomeCount(ITEM, "row", 12), OutcomeCount(ITEM, "half", 1),
        accounts=(Account("orders", key_halves=1, further=4),)),
    accounted(12, OutcomeCount(ITEM, "row", 6), OutcomeCount(ITEM, "excluded", 2)),
    # a pair, delivered twice
    accounted(4, OutcomeCount(ITEM, "row", 1, 1), OutcomeCount(ITEM, "duplicate", 1, 1)),
]  # fmt: skip


@pytest.mark.parametrize(("report", "without"), list(zip(ADDING_UP, (0, 0, 0, 4, 0), strict=True)))
def test_the_flow_adds_up_to_the_messages_above_it(report: Report, without: int) -> None:
    sums, drawn = totals(report), flow(report)
    assert drawn is not None
    outcomes = (
        sums.changes,
        sums.control_events,
        sums.duplicates,
        sums.waiting,
        sums.quarantined,
        sums.excluded,
    )
    assert (
        sum(outcomes) + sums.merged_halves + sums.key_change_halves + sums.without_fate - sums.further_rows
        == report.messages
    )
    assert sums.without_fate == without
    (source,) = (node for node in drawn.nodes if node.kind == "source")
    middle = [int(node.note) for node in drawn.nodes if node.kind not in ("source", "table")]
    assert source.note == f"{(report.messages or 0) - without} messages"
    assert sum(middle) - sums.further_rows == (report.messages or 0) - without
    assert drawn.balance == balance(report)
    assert drawn.heads[0][1] == f"{report.messages} messages"


@pytest.mark.parametrize(
    ("report", "expected"),
    list(
        zip(
            ADDING_UP,
            (
                "196 messages = 136 changes + 29 control events + 22 merged halves + 7 duplicates"
                " + 2 quarantined",
                "10 messages = 6 changes + 2 merged halves + 2 halves waiting",
                "9 messages = 12 changes + 1 halves of key changes"
                " − 4 further rows of messages with several rows",
                "12 messages = 6 changes + 2 excluded + 4 without an outcome yet",
                "4 messages = 1 changes + 2 merged halves + 1 duplicates",
            ),
            strict=True,
        )
    ),
)
def test_the_balance_is_a_sum_that_a_reader_can_check(report: Report, expected: str) -> None:
    assert balance(report) == expected
    assert balance(replace(report, messages=None)) == ""


def test_the_rows_of_the_tables_in_the_drawing_add_up_to_the_rows_above_them() -> None:
    drawn = flow(great())
    assert drawn is not None
    notes = [int(node.note.split()[0].replace(",", "")) for node in drawn.nodes if node.kind == "table"]
    assert drawn.nodes[-1].share == 100
    assert drawn.nodes[-2].share == 0.5
    assert drawn.nodes[-2].label == "database_7.…ong_name_187"
    assert drawn.heads[2][1] == f"{sum(notes):,} rows" == "180,000 rows"


def test_trends_run_from_the_oldest_run_to_the_newest() -> None:
    messages = trends(busy())[0]
    assert len(messages.bars) == 24
    assert messages.newest == "120"
    assert messages.bars[-1].title.startswith("2024-03-02 08:30:00")
    assert trends(nothing()) == []
    assert (messages.top, messages.half, messages.first, messages.last) == (
        "500",
        "250",
        "2024-03-01",
        "2024-03-02",
    )
    assert messages.bars[0].x == 0
    assert messages.bars[-1].x + messages.bars[-1].width == pytest.approx(100, abs=0.01)


@pytest.mark.parametrize(
    ("greatest", "is_time", "expected"),
    [(0, False, 1), (1, False, 1), (3, False, 4), (7, False, 10), (10, False, 10), (11, False, 20),
     (486, False, 500), (4_100, False, 5_000), (0.4, True, 1), (13.2, True, 20), (86_400, True, 86_400),
     (86_140_800, True, 86_400_000)],
)  # fmt: skip
def test_an_axis_ends_at_the_next_round_value(greatest: float, is_time: bool, expected: float) -> None:
    assert axis_top(greatest, is_time=is_time) == expected


def test_the_document_is_json_and_says_what_the_page_says() -> None:
    found = json.loads(json_text(busy()))
    assert found["verdict"] == "fail"
    assert found["generated_at"] == NOW.isoformat().replace("+00:00", "Z")
    price = found["tables"][0]
    assert (price["table"], price["state"], price["behind"], price["rows"]) == ("price", "parked", 1, 61)
    assert found["quarantine"]["samples"][0]["value"]["text"] == "<html><body>502 Bad Gateway</body></html>"
    assert [check["success"] for check in found["quality"]] == [True, True, False, False, None]
    assert found["runs"][11]["outcome"] == "failed"
    assert document(nothing())["quality"] is None


def test_harmful_text_goes_through_json_unchanged() -> None:
    found = json.loads(json_text(harmful()))
    assert [sample["value"]["text"] for sample in found["quarantine"]["samples"]] == [
        bad["sample"] for bad in found["bad_values"]
    ]


def test_the_facts_of_many_sources_are_gathered_in_one_pass() -> None:
    """Each source went through what all sources had: eight thousand of them took most of a minute."""
    places = [TableKey(f"s{number}", "shop", None, "t") for number in range(8_000)]
    report = replace(
        nothing(),
        outcomes=tuple(OutcomeCount(place, "row", 2) for place in places),
        waiting=tuple(Waiting(place, 1, NOW) for place in places),
        refusals=tuple(Refusal(place.source, "canal", "empty", 3, NOW, NOW) for place in places),
    )
    begun = time.process_time()
    found = source_facts(report)
    assert time.process_time() - begun < 2
    assert {(s.events, s.waiting, s.quarantined) for s in found if s.name != "orders"} == {(2, 1, 3)}
