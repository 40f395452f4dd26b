"""A report becomes metrics that Prometheus' own parser reads."""

from __future__ import annotations

from dataclasses import replace

import pytest
from prometheus_client.parser import text_string_to_metric_families

from framework.exports.metrics import metrics_text
from framework.report.model import OutcomeCount, PartitionOffset, PastRun, Refusal, Report, Table, TableKey
from tests.framework.report.reports import NOW, ago, busy, harmful, nothing


def samples(report: Report, *offsets: PartitionOffset) -> dict[tuple[str, ...], float]:
    """The value of each metric, by its name and the values of its labels, without that of the pipeline."""
    found = {}
    for family in text_string_to_metric_families(metrics_text(report, offsets)):
        for sample in family.samples:
            assert sample.labels.pop("pipeline") == report.pipeline
            found[sample.name, *sample.labels.values()] = sample.value
    return found


def test_a_parked_table_is_counted_and_named() -> None:
    place = TableKey("orders", "shop", None, "price")
    report = replace(nothing(), tables=(Table(place, "parked", changes_applied=12),))
    found = samples(report)
    assert found["mainstem_tables", "parked"] == 1
    assert found["mainstem_tables", "active"] == 0
    assert found["mainstem_table_parked", "orders", "shop.price"] == 1
    assert found["mainstem_table_changes_applied", "orders", "shop.price"] == 12


def test_quarantine_is_counted_by_source_and_reason() -> None:
    report = replace(nothing(), refusals=(Refusal("crm", "debezium", "not_json", 7, NOW, NOW),))
    assert samples(report)["mainstem_quarantined_messages", "crm", "not_json"] == 7


def test_no_two_samples_have_the_same_labels() -> None:
    refusals = (
        Refusal("crm", "debezium", "not_json", 7, NOW, NOW),
        Refusal("crm", "canal", "not_json", 2, NOW, NOW),
    )
    places = [("a.b", None, "c"), ("a", None, "b.c"), ("a", "b", "c"), ("a", None, "`b`.c")]
    tables = tuple(Table(TableKey("crm", *place), "active") for place in places)
    report = replace(nothing(), refusals=refusals, tables=tables)
    assert samples(report)["mainstem_quarantined_messages", "crm", "not_json"] == 9
    lines = [line.rpartition(" ")[0] for line in metrics_text(report).splitlines()]
    assert sorted(set(lines)) == sorted(lines)
    shown = {key[2] for key in samples(report) if key[0] == "mainstem_table_parked"}
    assert shown == {"`a.b`.c", "a.`b.c`", "a.b.c", "a.```b``.c`"}


def test_the_last_run_has_its_seconds_and_those_of_each_step() -> None:
    run = PastRun("a", ago(hours=1), seconds=9.5, steps={"bronze": 1.5, "silver": 6.0})
    failed = PastRun("b", ago(hours=2), seconds=1.0, errors=("x",))
    found = samples(replace(nothing(), runs=(run, failed)))
    assert found[("mainstem_last_run_seconds",)] == 9.5
    assert found["mainstem_last_run_step_seconds", "bronze"] == 1.5
    assert found["mainstem_last_run_step_seconds", "silver"] == 6.0
    assert found[("mainstem_last_run_success",)] == 1
    assert found[("mainstem_last_run_timestamp_seconds",)] == ago(hours=1).timestamp()
    assert samples(replace(nothing(), runs=(failed, run)))[("mainstem_last_run_success",)] == 0


def test_a_partition_has_its_offset() -> None:
    assert (
        samples(nothing(), PartitionOffset("crm", "a.b", 3, 41))[
            "mainstem_partition_offset", "crm", "a.b", "3"
        ]
        == 41
    )


def test_the_newest_event_has_an_age() -> None:
    ages = [value for name, value in samples(busy()).items() if name[0].endswith("newest_event_age_seconds")]
    assert ages
    assert min(ages) > 0


def test_outcomes_and_messages_without_one_add_up_to_the_messages() -> None:
    place = TableKey("orders", "shop", None, "orders")
    outcomes = (OutcomeCount(place, "row", 6), OutcomeCount(TableKey("orders"), "heartbeat", 1))
    found = samples(replace(nothing(), messages=10, outcomes=outcomes))
    assert found["mainstem_outcomes", "orders", "change"] == 6
    assert found["mainstem_outcomes", "orders", "control_event"] == 1
    assert found[("mainstem_messages_without_outcome",)] == 3


def test_what_is_unknown_has_no_sample() -> None:
    found = samples(replace(nothing(), messages=None, checks=None))
    assert ("mainstem_messages",) not in found
    assert not any(name[0].startswith(("mainstem_last_run", "mainstem_quality")) for name in found)


@pytest.mark.parametrize("name", ['a"b', "a\\b", "a\nb", "a\\nb", 'mainstem_x{y="1"} 2\n# TYPE', "\udc80"])
def test_names_of_tables_stay_inside_their_label(name: str) -> None:
    place = TableKey("orders", "shop", None, name)
    found = samples(replace(nothing(), tables=(Table(place, "active"),)))
    (shown,) = (key[2] for key in found if key[0] == "mainstem_table_parked")
    expected = TableKey("orders", "shop", None, name.replace("\udc80", "\\udc80"))
    assert shown == expected.name


def test_every_name_of_a_hostile_feed_can_be_read() -> None:
    assert samples(harmful())
