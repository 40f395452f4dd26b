import re
from pathlib import PurePosixPath

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from framework.naming import catalog_table, dotted_name, gold_columns, history_folder, quoted, replica_folder

PARTS = st.one_of(
    st.text(max_size=40),
    st.text(alphabet="aA~.0_-7E ", max_size=8),
    st.text(alphabet="ab", min_size=100, max_size=140),
    st.sampled_from(["con", "CON", "~43ON", "", "~", "~0", "..", ".", "a/b", "orders__history", "__history"]),
)
NAMES = st.tuples(st.none() | PARTS, st.none() | PARTS, PARTS)


@pytest.mark.parametrize(
    ("name", "folder"),
    [
        (("shop", None, "orders"), "shop/orders"),
        (("shop", "public", "orders"), "shop.public/orders"),
        ((None, None, "orders"), "~/orders"),
        (("", None, ""), "~0/~0"),
        (("a.b", None, "order line"), "a~2Eb/order~20line"),
        (("数量", None, "../z"), "~E6~95~B0~E9~87~8F/~2E~2E~2Fz"),
        (("x; DROP TABLE y", None, "_delta_log"), "x~3B~20DROP~20TABLE~20y/~5Fdelta_log"),
        (("-a", None, "a-b_c"), "~2Da/a-b_c"),
        (("con", None, "LPT1"), "~63on/~4CPT1"),
        (("a~b", None, "console"), "a~7Eb/console"),
        (("shop", None, "orders__history"), "shop/orders_~5Fhistory"),
        (("shop", None, "\ud800"), "shop/~ED~A0~80"),
    ],
)
def test_replica_folder(name: tuple[str | None, str | None, str], folder: str) -> None:
    assert replica_folder(*name) == folder


@given(NAMES, NAMES)
def test_two_names_never_share_a_folder(
    one: tuple[str | None, str | None, str], other: tuple[str | None, str | None, str]
) -> None:
    assume(one != other)

    assert (
        len({replica_folder(*one), replica_folder(*other), history_folder(*one), history_folder(*other)}) == 4
    )


@given(NAMES)
def test_a_folder_stays_under_the_root_and_in_sight(name: tuple[str | None, str | None, str]) -> None:
    parts = PurePosixPath(history_folder(*name)).parts

    assert len(parts) == 2
    assert history_folder(*name).isascii()
    assert all(
        not part.startswith(("_", ".", "-", "/")) and part not in ("..", ".") and len(part) <= 255
        for part in parts
    )


def test_long_names_with_a_common_beginning_stay_apart() -> None:
    folders = {replica_folder("shop", None, "a" * 200 + end) for end in "xyz"}

    assert len(folders) == 3


@given(st.text())
def test_quoted_identifier_ends_only_at_its_own_end(name: str) -> None:
    text = quoted(name)

    assert text[0] == text[-1] == "`"
    assert "`" not in text[1:-1].replace("``", "")
    assert text[1:-1].replace("``", "`") == name


@pytest.mark.parametrize(
    ("name", "column"),
    [
        ("id", "id"),
        ("_cdc_sequence", "__cdc_sequence"),
        ("_CDC_x", "__CDC_x"),
        ("_Change_Type", "__Change_Type"),
        ("_commit_version", "__commit_version"),
        ("_commit_timestamp", "__commit_timestamp"),
        ("__cdc_x", "__cdc_x"),
        ("_commit_versions", "_commit_versions"),
        ("cdc_x", "cdc_x"),
    ],
)
def test_gold_column(name: str, column: str) -> None:
    assert gold_columns([name]) == {name: column}


def test_reserved_columns_get_underscores_until_they_are_unique() -> None:
    names = ["_cdc_x", "id", "__CDC_X", "_CDC_x"]

    assert gold_columns(names) == {
        "_cdc_x": "___cdc_x",
        "id": "id",
        "__CDC_X": "__CDC_X",
        "_CDC_x": "____CDC_x",
    }


@given(
    st.lists(
        st.text(alphabet="_cdxCDX", max_size=8) | st.sampled_from(["_cdc_a", "__cdc_a", "_change_type"]),
        unique_by=str.lower,
    )
)
def test_gold_columns_are_unique_and_never_reserved(names: list[str]) -> None:
    columns = list(gold_columns(names).values())

    assert len({column.lower() for column in columns}) == len(names)
    assert not any(
        column.lower().startswith("_cdc_") or column.lower() == "_change_type" for column in columns
    )


@pytest.mark.parametrize(
    ("parts", "name"),
    [
        (("shop", None, "orders"), "shop.orders"),
        (("shop", "public", "orders"), "shop.public.orders"),
        ((None, None, "orders"), "orders"),
        (("", None, "orders"), ".orders"),
        ((None, None, None), ""),
    ],
)
def test_a_dotted_name_has_the_parts_that_are_not_null(
    parts: tuple[str | None, str | None, str | None], name: str
) -> None:
    assert dotted_name(*parts) == name


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (("shop", None, "orders"), "shop__orders"),
        (("crm", "public", "customer"), "crm__public__customer"),
        (("shop", None, "order_line"), "shop__order_line"),
        (("shop", None, "a__b"), "shop__a___5F___5Fb"),
        (("a_", None, "_b"), "a___5F_____5Fb"),
        (("a", "b", "c"), "a__b__c"),
        (("a.b", None, "c"), "a___2Eb__c"),
        (("a-b", None, "é"), "a___2Db_____C3___A9"),
        ((None, None, "t"), "___n__t"),
        (("", "", "t"), "___z_____z__t"),
        (("crm", "orders", "history"), "crm__orders_____68istory"),
    ],
)
def test_a_catalog_names_a_table(name: tuple[str | None, str | None, str], expected: str) -> None:
    assert catalog_table(replica_folder(*name)) == expected


def test_a_catalog_names_a_history_and_the_tables_of_a_layer() -> None:
    assert catalog_table(history_folder("shop", None, "orders")) == "shop__orders__history"
    assert catalog_table("files/feed") == "files__feed"


_PARTS = st.text(st.sampled_from("aB_-.~é/0"), max_size=6) | st.sampled_from(
    ["history", "a__history", "x" * 130, "y" * 121]
)


@given(
    st.sets(st.tuples(st.none() | _PARTS, st.none() | _PARTS, _PARTS, st.booleans()), min_size=2, max_size=8)
)
def test_no_two_tables_or_histories_share_a_name_in_a_catalog(
    names: set[tuple[str | None, str | None, str, bool]],
) -> None:
    folders = {(history_folder if is_history else replica_folder)(*name) for *name, is_history in names}
    tables = {catalog_table(folder) for folder in folders}
    assert len(tables) == len(folders)
    assert all(re.fullmatch(r"[A-Za-z0-9_]{1,255}", table) for table in tables)
