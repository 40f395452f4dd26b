from __future__ import annotations

import pytest

from framework.contracts.canonical_types import is_canonical, sql_type


@pytest.mark.parametrize(
    "kind", ["string", "timestamp_ntz", "bigint", "decimal(1,0)", "decimal(38,38)", "decimal(20,0)"]
)
def test_a_canonical_type_is_written_as_it_is(kind: str) -> None:
    assert sql_type(kind) == kind


@pytest.mark.parametrize(
    "kind",
    [
        "",
        "INT",
        "int ",
        "int\n",
        "string COMMENT 'x', injected INT",
        "decimal(39,0)",
        "decimal(5,6)",
        "decimal(05,1)",
        "decimal(5, 1)",
        "decimal(5,1))",
        "decimal(٣,١)",
        "decimal",
        "array<int>",
        "${env:HOME}",
    ],
)
def test_what_is_no_canonical_type_is_never_written_into_a_statement(kind: str) -> None:
    assert not is_canonical(kind)
    with pytest.raises(ValueError, match="no canonical type"):
        sql_type(kind)
