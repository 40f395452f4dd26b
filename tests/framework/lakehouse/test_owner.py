import fcntl
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier, Thread
from typing import cast

import pytest
from pyspark.sql import SparkSession

from framework.errors import MainstemError
from framework.lakehouse.lakehouse import Lakehouse
from framework.lakehouse.owner import check_owner, claim

LOCAL = cast(SparkSession, None)
"""On a local file system no session is needed."""


def test_a_lakehouse_is_one_pipelines(tmp_path: Path) -> None:
    lake = Lakehouse(str(tmp_path / "lakehouse"))
    check_owner(LOCAL, lake, "reports")
    claim(LOCAL, lake, "shop")
    claim(LOCAL, lake, "shop")
    check_owner(LOCAL, lake, "shop")
    for ask in (claim, check_owner):
        with pytest.raises(MainstemError, match="pipeline 'shop'") as raised:
            ask(LOCAL, lake, "reports")
        assert raised.value.condition == "LAKEHOUSE_TAKEN"


def test_a_look_claims_nothing(tmp_path: Path) -> None:
    check_owner(LOCAL, Lakehouse(str(tmp_path / "lakehouse")), "shop")
    assert not (tmp_path / "lakehouse").exists()


def test_a_lock_on_the_folder_holds_no_claim_up(tmp_path: Path) -> None:
    lake = Lakehouse(str(tmp_path / "lakehouse"))
    folder = Path(lake.checkpoints)
    folder.mkdir(parents=True)
    descriptor = os.open(folder, os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    claimed = Thread(target=claim, args=(LOCAL, lake, "shop"), daemon=True)
    claimed.start()
    claimed.join(10)
    is_blocked = claimed.is_alive()
    os.close(descriptor)
    assert not is_blocked
    assert (folder / "pipeline.lock").stat().st_mode & 0o777 == 0o600


def test_of_two_pipelines_that_claim_at_one_moment_one_is_refused(tmp_path: Path) -> None:
    for attempt in range(20):
        lake = Lakehouse(str(tmp_path / str(attempt)))
        together = Barrier(2)

        def ask(pipeline: str, lake: Lakehouse = lake, together: Barrier = together) -> str | None:
            together.wait()
            try:
                claim(LOCAL, lake, pipeline)
            except MainstemError:
                return None
            return pipeline

        with ThreadPoolExecutor(2) as pool:
            owners = [owner for owner in pool.map(ask, ("shop", "crm")) if owner]
        assert owners == [Path(lake.checkpoints, "pipeline").read_text()]
