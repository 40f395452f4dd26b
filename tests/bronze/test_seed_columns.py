"""A dump without the columns of the key is refused with the cause, where the names show it."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from bronze.seed import check_columns
from framework.contracts.seed import Seed
from framework.errors import ConfigurationError
from framework.pipeline.layer import ResolvedSeed

FEED = ("id", "name", "price")


def refused(columns: Sequence[str], feed: Sequence[str] = FEED, kind: str | None = None) -> str:
    seed = Seed("feed", "shop", None, "item", "011.011.0210", ("id",))
    with pytest.raises(ConfigurationError) as caught:
        check_columns(dict.fromkeys(columns, kind), ResolvedSeed(seed, tuple(feed)), "item.csv")
    assert caught.value.condition == "KEY_COLUMN_MISSING"
    return f"{caught.value.found}. {caught.value.action}"


@pytest.mark.parametrize("mark", [";", "\t", "|"])
def test_a_file_with_other_separators(mark: str) -> None:
    found = refused([mark.join(FEED)])
    assert f"its first line has {mark!r} where a CSV file has commas" in found
    assert "export the table again with commas" in found


@pytest.mark.parametrize("feed", [FEED, ()])
def test_a_file_that_begins_with_a_row(feed: Sequence[str]) -> None:
    found = refused(["1", "pen", "2.00"], feed)
    assert "its first line is '1,pen,2.00'" in found
    assert "begin the file with a line of the column names" in found


@pytest.mark.parametrize(
    ("columns", "feed", "kind"),
    [(["Id", "name"], FEED, None), (["code", "title"], (), None), (["1", "pen"], FEED, "string")],
    ids=["misspelt", "unknown feed", "parquet"],
)
def test_a_file_with_other_names(columns: Sequence[str], feed: Sequence[str], kind: str | None) -> None:
    found = refused(columns, feed, kind)
    assert "first line" not in found
    assert columns[0] in found


def test_a_file_with_the_key_passes() -> None:
    seed = Seed("feed", "shop", None, "item", "011.011.0210", ("id",))
    check_columns({"id": None}, ResolvedSeed(seed, FEED), "item.csv")
