"""What states store of a table's statements: texts that no release may change."""

from __future__ import annotations

import pytest

from framework.config.tables import TableSettings
from framework.contracts.ddl_actions import AddColumn, ChangeType, DropColumn, RenameColumn, TableName
from gold.planning.rebuild import lineage_digest, settings_fingerprint
from gold.schema.lineage import Lineage, Segment

TABLE, OLD_NAME = TableName("db", None, "t"), TableName("db", "s", "o")
CHANGES = (
    ("011.2", AddColumn("a", "int", "int(11)", default="1")),
    ("011.3", DropColumn("b")),
    ("011.4", RenameColumn("c", "d")),
    ("011.5", ChangeType("d", "bigint", "bigint")),
)


@pytest.mark.parametrize(
    ("lineage", "digest"),
    [
        (Lineage(TABLE, (Segment(TABLE, "", None),)), "0:4740b1e901fcebcbd071d49f"),
        (
            Lineage(
                TABLE,
                (Segment(OLD_NAME, "", "011.1"), Segment(TABLE, "011.1", None)),
                CHANGES,
                keys=(("011.6", ("id", "d")),),
            ),
            "4:a964827da0c51040b6dd25c2",
        ),
    ],
    ids=["no statement", "a rename and changes of columns"],
)
def test_a_stored_digest_stays_valid(lineage: Lineage, digest: str) -> None:
    """With another digest, the first run of a new release would rebuild every table."""
    assert lineage_digest(lineage) == digest


def test_a_stored_fingerprint_stays_valid() -> None:
    assert settings_fingerprint(TableSettings()) == '["hard", null, "lenient", {}]'
