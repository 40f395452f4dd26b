from pathlib import Path
from typing import cast

import pytest
from pyspark.sql import SparkSession

from framework.errors import MainstemError
from framework.owner import check_owner, claim
from framework.tables import Lakehouse

LOCAL = cast(SparkSession, None)
"""On a local file system no session is needed."""


def test_a_lakehouse_is_one_pipelines(tmp_path: Path) -> None:
    lake = Lakehouse(str(tmp_path / "lakehouse"))
    check_owner(LOCAL, lake, "reports")
    claim(LOCAL, lake, "shop")
    claim(LOCAL, lake, "shop")
    check_owner(LOCAL, lake, "shop")
    for ask in (claim, check_owner):
        with pytest.raises(MainstemError, match="pipeline 'shop'") as told:
            ask(LOCAL, lake, "reports")
        assert told.value.condition == "LAKEHOUSE_TAKEN"


def test_a_look_claims_nothing(tmp_path: Path) -> None:
    check_owner(LOCAL, Lakehouse(str(tmp_path / "lakehouse")), "shop")
    assert not (tmp_path / "lakehouse").exists()
