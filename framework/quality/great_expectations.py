"""Great Expectations: the only module that imports it, and only when there is something to judge.

The context is ephemeral, nothing goes over a network, and usage statistics are off. One
expectation validates the measurements of all tables, a batch with a row for each rule, so that a rule costs
next to nothing here. `scanned` lets Great Expectations read the table itself, with its own
expectation for each kind that has one.
"""

from __future__ import annotations

import os
import threading
import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from pyspark.sql import DataFrame

from framework.contracts.expectations import Finding, Rule
from framework.contracts.quality import MOST_KEYS
from framework.text.formatting import quantity

_OF_ONE_COLUMN = ("not_null", "accepted", "range", "regex", "length")


def has_expectation(rule: Rule) -> bool:
    """Whether Great Expectations has an expectation for the rule.

    That for nulls is of one column, that for ranges has other readings of a text, and to that for unique
    values no null is equal to another.
    """
    if rule.kind == "range" and any(isinstance(bound, str) for bound in (rule.low, rule.high)):
        return False
    if rule.kind == "unique":
        return not rule.nulls_equal
    return rule.kind in _OF_ONE_COLUMN and len(rule.columns) == 1


def counted(findings: Sequence[Finding]) -> list[bool | None]:
    """Whether each finding's rule holds by its count alone, without the slow import of Great Expectations."""
    return [finding.failed == 0 if finding.is_judged else None for finding in findings]


class GreatExpectations:
    """A context of Great Expectations for one run; a thread imports it, which takes seconds."""

    def __init__(self) -> None:
        self._context: Any = None
        self._error: BaseException | None = None
        self._count = 0
        self._has_tables = False
        self._opening = threading.Thread(target=self._open, daemon=True, name="great-expectations")
        self._opening.start()

    def verdicts(self, findings: Sequence[Finding]) -> list[bool | None]:
        """Whether each finding's rule holds, as Great Expectations judges the measurements.

        The measurements are one batch, a row for each rule.
        """
        import pandas as pd  # slow to load, and most commands judge nothing

        gx, context = self._ready()
        judged = [number for number, finding in enumerate(findings) if finding.is_judged]
        if not judged:
            return [None] * len(findings)
        found = [findings[number] for number in judged]
        frame = pd.DataFrame({"rule": [f.rule.name for f in found], "failed": [f.failed for f in found]})
        nothing_fails = gx.expectations.ExpectColumnValuesToBeBetween(
            column="failed", min_value=0, max_value=0
        )
        asset = context.data_sources.get("measured").get_asset("measured")
        result = self._validated("measured", asset, frame, [nothing_fails], {"result_format": "COMPLETE"})
        broken = {judged[row] for row in result.results[0].result.get("unexpected_index_list") or ()}
        if bool(result.success) != (not broken):
            raise ValueError("Great Expectations does not say which rules fail")
        return [number not in broken if f.is_judged else None for number, f in enumerate(findings)]

    def scanned(
        self, title: str, rows: DataFrame, rules: Sequence[Rule], keys: Sequence[str]
    ) -> list[Finding]:
        """The findings of rules (`has_expectation`) when Great Expectations reads the table itself.

        A rule that it cannot measure has none, such as one with values of another type than the column's. The
        keys of a finding are some of those that fail, not the first of them.
        """
        gx, context = self._ready()
        if not self._has_tables:
            source = context.data_sources.add_spark("tables", persist=False)
            source.add_dataframe_asset("tables").add_batch_definition_whole_dataframe("whole")
            self._has_tables = True
        # Great Expectations takes a dot in a name for a path
        plain = {name.lower(): f"c{number}" for number, name in enumerate(rows.columns)}
        rows, named = rows.toDF(*plain.values()), [plain[key.lower()] for key in keys]
        form: dict[str, Any] = {
            "result_format": "SUMMARY",  # COMPLETE would bring all rows that fail to this process
            "partial_unexpected_count": MOST_KEYS,
            "unexpected_index_column_names": named or rows.columns[:1],
        }
        found = []
        for rule in rules:
            columns = tuple(plain[name.lower()] for name in rule.columns)
            expectation = _native(gx.expectations, replace(rule, columns=columns))
            asset = context.data_sources.get("tables").get_asset("tables")
            result = self._validated(title, asset, rows, [expectation], form).results[0]
            counts = result.result
            if not counts:  # it has raised an error
                continue
            total = int(counts.get("element_count") or 0)
            failed = int(counts.get("unexpected_count") or (0 if result.success else 1))
            index = counts.get("partial_unexpected_index_list") or ()
            cells = ([_text(row.get(name)) for name in named] for row in index)
            texts = {", ".join(map("=".join, zip(keys, row, strict=True))) for row in cells}
            found.append(
                Finding(
                    rule,
                    total,
                    failed,
                    tuple(sorted(texts)[:MOST_KEYS]),
                    f"{failed:,} of {quantity(total, 'row')}",
                    "scanned by Great Expectations",
                )
            )
        return found

    def _validated(
        self, title: str, asset: Any, frame: Any, expectations: Sequence[Any], form: object = "BASIC"
    ) -> Any:
        gx, context = self._ready()
        self._count += 1
        name = f"{title}#{self._count}"
        suite = context.suites.add(gx.ExpectationSuite(name=name, expectations=list(expectations)))
        batch = asset.get_batch_definition("whole")
        definition = context.validation_definitions.add(
            gx.ValidationDefinition(name=name, data=batch, suite=suite)
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return definition.run(batch_parameters={"dataframe": frame}, result_format=form)

    def _ready(self) -> tuple[Any, Any]:
        self._opening.join()
        if self._error is not None:
            raise self._error
        import great_expectations as gx  # loaded by the thread

        return gx, self._context

    def _open(self) -> None:
        try:
            os.environ.setdefault("GX_ANALYTICS_ENABLED", "false")
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                import great_expectations as gx
                import great_expectations.expectations
                from great_expectations.data_context.types.base import (
                    DataContextConfig,
                    InMemoryStoreBackendDefaults,
                    ProgressBarsConfig,
                )

                stores = InMemoryStoreBackendDefaults(init_temp_docs_sites=False)
                quiet = ProgressBarsConfig(globally=False)
                config = DataContextConfig(
                    store_backend_defaults=stores, progress_bars=quiet, analytics_enabled=False
                )
                context = gx.get_context(mode="ephemeral", project_config=config)
                source = context.data_sources.add_pandas("measured")
                source.add_dataframe_asset("measured").add_batch_definition_whole_dataframe("whole")
            self._context = context
        except BaseException as error:
            self._error = error


def _text(value: object) -> str:
    """The text of a cell of a key, as `row_checks` writes it."""
    return "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def _native(expectations: Any, rule: Rule) -> Any:
    column = rule.columns[0]
    if rule.kind == "not_null":
        return expectations.ExpectColumnValuesToNotBeNull(column=column)
    if rule.kind == "unique" and len(rule.columns) > 1:
        return expectations.ExpectCompoundColumnsToBeUnique(
            column_list=list(rule.columns), ignore_row_if="any_value_is_missing"
        )
    if rule.kind == "unique":
        return expectations.ExpectColumnValuesToBeUnique(column=column)
    if rule.kind == "accepted":
        return expectations.ExpectColumnValuesToBeInSet(column=column, value_set=list(rule.values))
    if rule.kind == "range":
        return expectations.ExpectColumnValuesToBeBetween(
            column=column, min_value=rule.low, max_value=rule.high
        )
    if rule.kind == "length":
        return expectations.ExpectColumnValueLengthsToBeBetween(
            column=column, min_value=rule.low, max_value=rule.high
        )
    return expectations.ExpectColumnValuesToMatchRegex(column=column, regex=rf"^(?:{rule.pattern})\z")
