"""Which commits of bronze leave its messages as they are, by Delta's own words for what they did."""

from __future__ import annotations

import json

import pytest

from framework.contracts.erasure import ERASED, FORGOTTEN
from framework.lakehouse.lakehouse import Lakehouse
from silver.stream.bronze_rewrites import announces_erasure, is_rewrite, rewrite_in

OURS = json.dumps({"source": "feed", "by": FORGOTTEN})
LAKE = Lakehouse("/lake")


@pytest.mark.parametrize(
    ("operation", "parameters", "note"),
    [
        ("WRITE", {"mode": "Append"}, None),
        ("STREAMING UPDATE", {}, None),
        ("OPTIMIZE", {}, None),
        ("VACUUM END", {}, None),
        ("CHANGE COLUMN", {}, None),
        ("CHANGE COLUMNS", {}, None),
        ("SET TBLPROPERTIES", {}, OURS),
        ("CREATE TABLE", {}, None),
        ("MERGE", {}, OURS),
    ],
)
def test_messages_stay_as_they_are(operation: str, parameters: dict[str, str], note: str | None) -> None:
    assert not is_rewrite(operation, parameters, note)


@pytest.mark.parametrize(
    ("operation", "parameters", "note"),
    [
        ("WRITE", {"mode": "Overwrite"}, OURS),
        ("WRITE", {}, None),
        ("MERGE", {}, None),
        ("MERGE", {}, '{"source": "feed"}'),
        ("UPDATE", {}, OURS),
        ("DELETE", {}, None),
        ("TRUNCATE", {}, None),
        ("RESTORE", {}, None),
        ("CREATE OR REPLACE TABLE AS SELECT", {}, None),
        ("an operation that nobody knows yet", {}, None),
    ],
)
def test_messages_may_have_been_changed_or_taken_away(
    operation: str, parameters: dict[str, str], note: str | None
) -> None:
    assert is_rewrite(operation, parameters, note)


@pytest.mark.parametrize(
    ("operation", "properties", "is_announced"),
    [
        ("SET TBLPROPERTIES", {"delta.appendOnly": "false", ERASED: OURS}, True),
        ("SET TBLPROPERTIES", {"delta.appendOnly": "false"}, False),
        ("SET TBLPROPERTIES", {"delta.appendOnly": "true"}, False),
        ("MERGE", {ERASED: OURS}, False),
    ],
)
def test_an_erasure_is_announced_by_the_commit_before_it(
    operation: str, properties: dict[str, str], is_announced: bool
) -> None:
    assert announces_erasure(operation, {"properties": json.dumps(properties)}) is is_announced


def test_the_streams_refusal_is_recognized_with_its_version_and_no_other_error_is() -> None:
    text = (
        "[DELTA_SOURCE_TABLE_IGNORE_CHANGES] Detected a data update (for example UPDATE) in the source "
        "table at version 7."
    )
    refused = rewrite_in(RuntimeError(text), LAKE, "bronze/messages")
    assert refused is not None
    assert (refused.condition, refused.where) == ("BRONZE_REWRITTEN", "/lake/bronze/messages")
    assert "TO VERSION AS OF 6" in refused.action
    unnumbered = rewrite_in(
        RuntimeError("[DELTA_SOURCE_IGNORE_DELETE] Detected deleted data"), LAKE, "bronze/messages"
    )
    assert unnumbered is not None
    assert "the version before it" in unnumbered.action
    assert rewrite_in(RuntimeError("No space left on device"), LAKE, "bronze/messages") is None
