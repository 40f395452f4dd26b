from __future__ import annotations

from types import ModuleType

import pytest

from framework.contracts.ddl_actions import (
    Action,
    AddColumn,
    ChangeType,
    CreateTable,
    DropColumn,
    DropTable,
    NoEffect,
    RenameColumn,
    RenameTable,
    SetComment,
    SetKeys,
    TableName,
    TruncateTable,
    Unsupported,
)
from framework.contracts.events import Control, ControlKind
from silver.changes.ddl_events import statement_events
from silver.decoding.format import ColumnHint
from silver.formats import (
    datahub_blob,
    maxwell,
    oms_canal,
    oms_dataworks,
    oms_default,
    oms_default_extend,
)
from silver.formats.datahub_blob import FORMAT


def spread(
    op: str, text: str | None, *, table: str | None = "orders", kind: ControlKind = ControlKind.DDL
) -> list[Control]:
    return of_database("shop", op, text, table, kind)


def of_database(
    database: str | None,
    op: str,
    text: str | None,
    table: str | None = None,
    kind: ControlKind = ControlKind.DDL,
) -> list[Control]:
    event = Control(
        kind, op, database, None, table, statement=text, position=(7,), event_time=5, dialect="mysql"
    )
    return list(statement_events(event, FORMAT))


def in_unknown_database(table: str) -> Unsupported:
    return Unsupported(f"the text does not say in which database `{table}` is")


def altered(column: str) -> Control:
    text = f"alter table orders add c {column}"
    return Control(
        ControlKind.DDL, "ALTER", "shop", None, "orders", statement=text, position=(7,), dialect="mysql"
    )


def summary(events: list[Control]) -> list[tuple[str, str | None, tuple[Action, ...] | None]]:
    return [(str(e.kind), e.table, e.actions) for e in events]


def test_a_statement_about_one_table_is_one_event_with_its_actions() -> None:
    (event,) = spread("ALTER", "alter table orders add column holo text")
    assert summary([event]) == [("ddl", "orders", (AddColumn("holo", "string", "text"),))]
    assert (event.statement, event.position, event.event_time) == (
        "alter table orders add column holo text",
        (7,),
        5,
    )


def test_a_statement_about_several_tables_is_an_event_a_table() -> None:
    assert summary(spread("ERASE", "drop table orders, lines")) == [
        ("ddl", "orders", (DropTable(),)),
        ("ddl", "lines", (DropTable(),)),
    ]


def test_a_rename_chain_keeps_its_order() -> None:
    names = {name: TableName("shop", None, name) for name in ("a", "b", "t")}
    assert summary(spread("RENAME", "rename table a to t, b to a, t to b", table="a")) == [
        ("ddl", "a", (RenameTable(names["t"]),)),
        ("ddl", "b", (RenameTable(names["a"]),)),
        ("ddl", "t", (RenameTable(names["b"]),)),
    ]


def test_a_statement_may_name_another_database() -> None:
    (event,) = spread("ALTER", "alter table archive.orders drop column note")
    assert (event.database, event.table, event.actions) == ("archive", "orders", (DropColumn("note"),))


@pytest.mark.parametrize("text", ["rename table orders to archive.old", "rename table Orders to Archive.OLD"])
def test_the_envelopes_database_is_not_the_sessions_where_the_text_says_it(text: str) -> None:
    """Canal and Debezium name the target of a rename."""
    (event,) = of_database("archive", "RENAME", text, "old")
    (action,) = event.actions or ()
    assert (event.database, event.table, isinstance(action, Unsupported)) == ("archive", "old", True)


def test_a_table_beside_a_qualified_one_is_not_dropped_in_its_database() -> None:
    assert summary(of_database("tmp", "ERASE", "drop table tmp.x, orders", "x")) == [
        ("ddl", "x", (DropTable(),)),
        ("ddl", "x", (in_unknown_database("orders"),)),
    ]


def test_a_table_that_the_text_names_with_its_database_is_certain_beside_the_same_name_without_one() -> None:
    text = "drop table shop.orders; create table orders (id int primary key)"
    assert [actions for _, _, actions in summary(spread("ERASE", text))] == [
        (DropTable(),),
        (in_unknown_database("orders"),),
    ]
    renamed = spread("RENAME", "rename table shop.orders to shop.old, orders to shop.lines")
    assert [e.actions for e in renamed] == [
        (RenameTable(TableName("shop", None, "old")),),
        (in_unknown_database("orders"),),
    ]


def test_a_new_name_is_not_in_the_database_of_a_qualified_one() -> None:
    (event,) = spread("ALTER", "alter table shop.orders add c int, rename to old")
    assert event.table == "orders"
    assert event.actions == (AddColumn("c", "bigint", "int"), in_unknown_database("old"))


@pytest.mark.parametrize(
    ("envelope", "text"),
    [("orders", "rename table orders to archive.old"), ("old", "use shop; rename table orders to shop.old")],
)
def test_an_unqualified_name_is_in_the_database_of_the_session(envelope: str, text: str) -> None:
    event = spread("RENAME", text, table=envelope)[-1]
    (action,) = event.actions or ()
    assert (event.database, event.table, type(action)) == ("shop", "orders", RenameTable)


@pytest.mark.parametrize("table", [None, ""])
def test_a_statement_without_a_table_is_about_tables_of_the_messages_database(table: str | None) -> None:
    texts = ("drop table orders", "rename table orders to archive.old", "truncate table orders")
    events = [event for text in texts for event in of_database("shop", "QUERY", text, table)]
    assert {(event.database, event.table) for event in events} == {("shop", "orders")}
    (qualified,) = of_database("shop", "QUERY", "drop table archive.orders", table)
    assert (qualified.database, qualified.table) == ("archive", "orders")


@pytest.mark.parametrize("kind", [ControlKind.DDL, ControlKind.TRUNCATE])
def test_a_statement_without_any_database_is_about_no_table(kind: ControlKind) -> None:
    (event,) = of_database(None, "TRUNCATE", "truncate table orders", kind=kind)
    assert (event.database, event.table, event.actions) == (None, "", (in_unknown_database("orders"),))
    (index,) = of_database(None, "QUERY", "create index i on orders (a)")
    assert index.actions == (NoEffect("index"),)
    (qualified,) = of_database(None, "QUERY", "drop table shop.orders")
    assert (qualified.database, qualified.actions) == ("shop", (DropTable(),))


def test_types_are_those_that_the_feed_declares_for_such_columns() -> None:
    (event,) = spread(
        "ALTER", "alter table orders add n int, add d date, add p decimal(10,2), modify f float"
    )
    actions = [(a.name, a.type) for a in event.actions or () if isinstance(a, AddColumn | ChangeType)]
    assert actions == [("n", "bigint"), ("d", "timestamp"), ("p", None), ("f", "double")]


@pytest.mark.parametrize(
    ("fmt", "column", "default"),
    [
        (oms_default, "datetime default '2020-01-01'", "2020-01-01 00:00:00"),
        (oms_default, "datetime(3) default '2020-01-01 00:00:00.500'", "2020-01-01 00:00:00.5"),
        (oms_default, "datetime default '0000-00-00 00:00:00'", "0000-00-00 00:00:00"),
        (oms_default, "bit default 1", "AQ=="),
        (oms_default, "bit(8) default b'11111111'", "/w=="),
        (oms_default, "bit(9) default 1", None),
        (oms_default, "bigint unsigned default 7", "7"),
        (oms_default, "time(2) default '1:2:3'", "01:02:03"),
        (oms_default_extend, "time(2) default '1:2:3'", "01:02:03"),
        (oms_dataworks, "time(3) default '-1:2:3.5'", "-01:02:03.5"),
        (oms_canal, "time(2) default '10:20:30'", "10:20:30"),
        (oms_canal, "varchar(9) default '1.50'", "1.50"),
        (oms_default_extend, "datetime(3) default '2020-01-01 00:00:00.500'", "2020-01-01T00:00:00.5"),
        (oms_default, "date default '2020-01-01'", "2020-01-01"),
        (maxwell, "datetime default '2020-01-01'", "2020-01-01 00:00:00"),
        (maxwell, "datetime(3) default '2020-01-01 00:00:00.5'", "2020-01-01 00:00:00.500"),
        (maxwell, "bit default 1", "1"),
        (datahub_blob, "datetime default '2020-01-01'", None),
        (datahub_blob, "decimal(5,2) default 1.50", "1.50"),
    ],
)
def test_a_default_is_written_as_the_rows_write_it(fmt: ModuleType, column: str, default: str | None) -> None:
    (event,) = statement_events(altered(column), fmt.FORMAT)
    (action,) = event.actions or ()
    assert isinstance(action, AddColumn)
    assert (action.default, action.has_expression_default) == (default, default is None)


def test_a_default_that_is_an_instant_is_known_only_with_the_zone_of_the_rows() -> None:
    stamp = ("2020-01-01T00:00:00.50Z", "timestamp", "timestamp(2)")
    texts = [fmt.default_text(*stamp) for fmt in (oms_default, maxwell)]
    assert texts == ["1577836800.5", None]


@pytest.mark.parametrize(
    ("hint", "default"),
    [
        (ColumnHint("timestamp_ntz"), "2020-01-01T00:00:00"),
        (ColumnHint("string"), "2020-01-01 00:00:00"),
        (ColumnHint(None, "base64"), "2020-01-01 00:00:00"),
    ],
)
def test_a_default_of_a_column_that_the_configuration_types_is_canonical(
    hint: ColumnHint, default: str
) -> None:
    event = altered("datetime default '2020-01-01'")
    (found,) = statement_events(event, oms_default.FORMAT, lambda *_: {"c": hint})
    (action,) = found.actions or ()
    assert isinstance(action, AddColumn)
    assert action.default == default


def test_types_of_a_created_table_are_translated_too() -> None:
    (event,) = spread("CREATE", "create table orders (id int primary key, at datetime)")
    (action,) = event.actions or ()
    assert isinstance(action, CreateTable)
    assert [(c.name, c.type, c.declared) for c in action.columns] == [
        ("id", "bigint", "int"),
        ("at", "timestamp", "datetime"),
    ]
    assert action.keys == ("id",)


def test_a_truncate_with_or_without_text_truncates() -> None:
    for text in (None, " ", "truncate table orders", "/* by hand */", "truncate [shop].[orders];"):
        assert summary(spread("TRUNCATE", text, kind=ControlKind.TRUNCATE)) == [
            ("truncate", "orders", (TruncateTable(),))
        ]


def test_a_truncate_that_has_the_table_in_another_case_truncates_the_envelopes_table() -> None:
    found = spread("TRUNCATE", "truncate table Orders", kind=ControlKind.TRUNCATE)
    assert summary(found) == [("truncate", "orders", (TruncateTable(),))]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("alter table orders truncate partition p1", Unsupported),
        ("truncate table orders partition (p1)", Unsupported),
        ("truncate table orders frobnicate", Unsupported),
        ("this is no sql", Unsupported),
        ("delete from orders where id = 1", Unsupported),
        ("drop table orders", DropTable),
    ],
)
def test_a_truncate_whose_text_does_something_else_does_what_its_text_says(
    text: str, expected: type[Action]
) -> None:
    (event,) = spread("TRUNCATE", text, kind=ControlKind.TRUNCATE)
    assert (event.kind, event.table, [type(a) for a in event.actions or ()]) == (
        ControlKind.DDL,
        "orders",
        [expected],
    )


def test_a_truncate_that_arrives_as_ddl_is_a_truncate() -> None:
    assert summary(spread("QUERY", "truncate table orders")) == [("truncate", "orders", (TruncateTable(),))]


def test_a_truncate_and_more_in_one_text_are_events_of_their_own() -> None:
    found = summary(spread("QUERY", "truncate table orders; alter table orders drop column note"))
    assert found == [("truncate", "orders", (TruncateTable(),)), ("ddl", "orders", (DropColumn("note"),))]


@pytest.mark.parametrize("op", ["CINDEX", "DINDEX"])
@pytest.mark.parametrize(
    "text",
    [
        *(None, " ", "create index broken on", "/* a note */ create unique index i on orders (a)"),
        *(
            "create index 'endless on orders (a)",
            "drop index i on orders",
            "alter table orders add index i (a)",
        ),
        *("drop index i", "add index i (a)"),
    ],
)
def test_an_index_alone_has_no_effect(op: str, text: str | None) -> None:
    assert summary(spread(op, text)) == [("ddl", "orders", (NoEffect("index"),))]
    assert len(spread(op, text, table=None)) == 1


@pytest.mark.parametrize(
    ("op", "text", "actions"),
    [
        (
            "CINDEX",
            "alter table orders add index i (a), add column c int default 5",
            (AddColumn("c", "bigint", "int", default="5"),),
        ),
        ("CINDEX", "add index i (a), drop column c", (DropColumn("c"),)),
        ("CINDEX", "alter table orders add primary key (a)", (SetKeys(("a",)),)),
        ("CINDEX", "alter table orders add index i (a), comment 'new'", (SetComment("new"),)),
        ("DINDEX", "drop index i, rename column a to b", (RenameColumn("a", "b"),)),
        (
            "DINDEX",
            "alter table orders drop primary key, add primary key (b)",
            (SetKeys(()), SetKeys(("b",))),
        ),
        ("DINDEX", "drop index `PRIMARY` on orders", (SetKeys(()),)),
        ("DINDEX", "drop index i on orders; alter table orders drop column c", (DropColumn("c"),)),
    ],
)
def test_a_statement_that_begins_with_an_index_may_do_more(
    op: str, text: str, actions: tuple[Action, ...]
) -> None:
    found = [action for event in spread(op, text) for action in event.actions or ()]
    assert tuple(action for action in found if not isinstance(action, NoEffect)) == actions


@pytest.mark.parametrize(
    "text",
    [
        "alter table orders add index i (a), frobnicate",
        "/* a note */ alter table orders add index i (a), frobnicate",
        "drop index i, frobnicate",
        "create index i on orders (a); alter table orders frobnicate",
        "this is no sql",
    ],
)
def test_what_is_not_understood_beside_an_index_is_told(text: str) -> None:
    found = [action for event in spread("CINDEX", text) for action in event.actions or ()]
    assert any(isinstance(action, Unsupported) for action in found)


def test_the_rest_of_a_statement_about_an_index_is_of_the_table_that_it_names() -> None:
    (event,) = spread("CINDEX", "alter table shop.lines add index i (a), drop column c", table=None)
    assert summary([event]) == [("ddl", "lines", (NoEffect("constraint or index"), DropColumn("c")))]


def test_an_erase_without_text_is_not_guessed_to_be_a_drop() -> None:
    assert summary(spread("ERASE", None)) == [("ddl", "orders", (Unsupported("erase_without_statement"),))]
    assert summary(spread("ALTER", " ")) == [("ddl", "orders", (Unsupported("no statement"),))]


@pytest.mark.parametrize("text", [None, "", " "])
def test_a_change_of_rows_without_its_text_changes_no_table(text: str | None) -> None:
    assert summary(spread("QUERY", text)) == [("ddl", "orders", (NoEffect("query"),))]


def test_an_event_that_names_no_table_is_still_one_event() -> None:
    assert summary(spread("QUERY", None, table=None)) == [("ddl", None, (NoEffect("no table named"),))]
    assert summary(spread("TRUNCATE", None, table=None, kind=ControlKind.TRUNCATE)) == [
        ("ddl", None, (NoEffect("no table named"),))
    ]


def test_text_that_nobody_understands_says_so() -> None:
    (event,) = spread("ALTER", "alter table orders frobnicate the columns")
    assert [type(a) for a in event.actions or ()] == [Unsupported]


def test_actions_that_the_decoder_knows_stand() -> None:
    event = Control(
        ControlKind.DDL,
        "ALTER",
        "shop",
        None,
        "orders",
        statement="drop table orders",
        actions=(AddColumn("n", "int", "int"),),
    )
    assert summary(list(statement_events(event, FORMAT))) == [
        ("ddl", "orders", (AddColumn("n", "bigint", "int"),))
    ]


def test_other_control_events_pass_as_they_are() -> None:
    event = Control(ControlKind.HEARTBEAT, "MHEARTBEAT", event_time=5)
    assert statement_events(event, FORMAT) == (event,)
