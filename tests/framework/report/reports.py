"""Reports to render: a busy day, nothing at all, a great many tables, and names and values that mean harm."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from framework.contracts.quality import QualityResult
from framework.report.excerpts import excerpt
from framework.report.model import (
    BadValues,
    Batch,
    Column,
    Dismissed,
    OutcomeCount,
    PastRun,
    Refusal,
    Refused,
    Report,
    SchemaChange,
    Source,
    Stop,
    Table,
    TableKey,
    TableResult,
    Verdict,
    Waiting,
)

NOW = datetime(2024, 3, 2, 8, 30, tzinfo=UTC)
HARMFUL = (
    "<script>alert(1)</script>",
    "</script><script>alert(2)</script>",
    "]]>",
    "</style></title></pre><img src=x onerror=alert(3)>",
    "a\u2028b\u2029c",
    "\u202egnp.exe",
    "שלום עולם",
    "nul\x00 esc\x1b[31m",
    "{{ 7 * 7 }}{% raw %}",
    "javascript:alert(4)",
    '" onmouseover="alert(5)',
    "&lt;b&gt;",
)


def ago(**parts: float) -> datetime:
    return NOW - timedelta(**parts)


def nothing() -> Report:
    return Report(
        "shop",
        "/srv/lakehouse",
        "0.1.0",
        NOW,
        sources=(Source("orders", "datahub_blob", "files", 1),),
        messages=0,
    )


def busy() -> Report:
    orders, lines, prices = (
        TableKey("orders", "shop", None, name) for name in ("orders", "order_line", "price")
    )
    customer = TableKey("crm", "crm", "public", "customer")
    return Report(
        pipeline="shop",
        lakehouse="/srv/lakehouse",
        version="0.1.0",
        generated_at=NOW,
        sources=(
            Source("orders", "datahub_blob", "files", 1),
            Source("crm", "debezium", "kafka", 2),
            Source("stock", "canal", "files", 1),
        ),
        messages=5_564,
        runs=tuple(_run(at) for at in range(24)),
        outcomes=(
            OutcomeCount(orders, "row", 1_532, 210, ago(minutes=4), ago(minutes=3), (9000, 8000, 7000)),
            OutcomeCount(lines, "row", 2_210, 96, ago(minutes=4), ago(minutes=3), (9000,)),
            OutcomeCount(prices, "row", 88, 0, ago(hours=6), ago(minutes=3), (9000, 8000)),
            OutcomeCount(customer, "row", 734, 0, ago(minutes=1), ago(seconds=20), (9000,)),
            OutcomeCount(
                TableKey("stock", "depot", None, "stock"), "row", 402, 0, ago(days=2), ago(days=2), (3000,)
            ),
            OutcomeCount(lines, "duplicate", 61, 0, ago(hours=1), ago(minutes=3)),
            OutcomeCount(TableKey("orders"), "heartbeat", 96, 0, ago(minutes=2), ago(minutes=3)),
            OutcomeCount(orders, "ddl", 2, 0, ago(hours=20), ago(hours=19), (8000,)),
            OutcomeCount(orders, "half", 44, 0, ago(minutes=4), ago(minutes=3)),
            OutcomeCount(TableKey("crm"), "quarantined", 7, 0, None, ago(minutes=3)),
            OutcomeCount(
                TableKey("orders", "shop", None, "tmp_load"), "excluded", 120, 0, ago(hours=2), ago(hours=2)
            ),
        ),
        tables=(
            Table(
                orders,
                "active",
                None,
                "/r/orders",
                "/r/orders__history",
                ("id",),
                3,
                9000,
                ago(minutes=4),
                1_532,
                6,
                1_204,
                (Column("id", "bigint"), Column("placed_at", "timestamp_ntz"), Column("gift_note", "string")),
                "position 1709367960000000087",
            ),
            Table(
                lines,
                "active",
                None,
                "/r/order_line",
                None,
                ("order_id", "line_no"),
                6,
                9000,
                ago(minutes=4),
                2_210,
                0,
                2_011,
            ),
            Table(
                prices,
                "parked",
                "DUPLICATE_KEY\n  found: two rows of key 7\n  where: shop.price, batch 9000\n  do:    name "
                "other keys",
                "/r/price",
                None,
                ("sku",),
                5,
                8000,
                ago(hours=6),
                80,
                2,
                61,
            ),
            Table(
                customer, "active", None, "/r/customer", None, ("id",), 12, 9000, ago(minutes=1), 734, 0, 700
            ),
            Table(
                TableKey("stock", "depot", None, "stock"),
                "append_only",
                None,
                "/r/stock",
                None,
                (),
                4,
                9000,
                ago(days=2),
                402,
                0,
                None,
            ),
        ),
        waiting=(Waiting(orders, 3, ago(minutes=9)),),
        stops=(Stop("stock", 1, "depot", 0, 8812, "server_changed", "server 7 after server 3"),),
        refusals=(
            Refusal("crm", "debezium", "not_json", 5, ago(hours=3), ago(minutes=3)),
            Refusal("crm", "debezium", "unknown_op", 2, ago(hours=3), ago(hours=3)),
        ),
        dismissed=(Dismissed("crm", "truncated", 3, "landed again as part-8", "ada", ago(hours=2)),),
        refused=(
            Refused(
                "crm",
                "debezium",
                "crm.public.customer",
                2,
                9_914,
                "not_json",
                "line 1, column 2",
                None,
                excerpt(b"<html><body>502 Bad Gateway</body></html>", None),
                ago(minutes=3),
            ),
            Refused(
                "crm",
                "debezium",
                "crm.public.customer",
                2,
                9_915,
                "unknown_op",
                "op",
                excerpt(b'{"id":7}', None),
                excerpt(b'{"op":"x","after":{"id":7,"name":"Zo\xc3\xab"}}' * 60, None),
                ago(hours=3),
            ),
            Refused(
                "crm",
                "debezium",
                "crm.public.customer",
                0,
                12,
                "compressed",
                None,
                None,
                excerpt(b"\x1f\x8b\x08\x00\x00\xff\xfe", 812),
                ago(hours=3),
            ),
        ),
        schema_changes=(
            SchemaChange(orders, "replica", ago(hours=19), "column gift_note string added"),
            SchemaChange(
                orders,
                "statement",
                ago(hours=20),
                "column gift_note varchar added",
                "ALTER TABLE orders ADD COLUMN gift_note VARCHAR(80) AFTER placed_at",
            ),
            SchemaChange(prices, "statement", ago(days=3), "truncated", "TRUNCATE TABLE price"),
        ),
        bad_values=(
            BadValues(orders, "placed_at", "not_canonical", 12, "0000-00-00 00:00:00", "c0ffee"),
            BadValues(lines, "unit_price", "precision", 3, "9.9999", "beef01"),
        ),
        batches=tuple(
            Batch(9000 - 1000 * at, ago(hours=at), ago(hours=at, minutes=3 + at % 5), 400) for at in range(9)
        ),
        checks=(
            check("shop.orders", "not_null(id)"),
            check("shop.orders", "unique(id)"),
            check(
                "shop.order_line",
                "order_exists",
                False,
                kind="relationship",
                columns=("order_id",),
                failed=2,
                keys=("order_id=917, line_no=1", "order_id=917, line_no=2"),
                expected="order_id in shop.orders",
                observed="2 of 2,011 rows",
            ),
            check(
                "crm.public.customer",
                "accepted(country)",
                False,
                source="crm",
                columns=("country",),
                severity="warn",
                failed=14,
                keys=("id=12", "id=77", "id=80"),
                expected="country one of DE, FR, NL",
                observed="14 of 700 rows",
            ),
            check(
                "shop.price",
                "snapshot",
                None,
                observed="not judged",
                detail="the file is not there: ./snapshots/price.csv",
            ),
        ),
        verdicts=tuple(Verdict(ago(hours=at), int(at in (0, 3)), int(at < 5)) for at in range(24)),
    )


def check(
    table: str,
    rule: str,
    success: bool | None = True,
    *,
    source: str = "orders",
    kind: str | None = None,
    columns: tuple[str, ...] = ("id",),
    severity: str = "error",
    failed: int = 0,
    keys: tuple[str, ...] = (),
    expected: str = "every row has one",
    observed: str = "1,204 rows",
    detail: str | None = None,
) -> QualityResult:
    parts = table.split(".")
    database, schema, name = parts if len(parts) == 3 else (parts[0], None, parts[-1])
    return QualityResult(
        "run",
        ago(minutes=2),
        ago(minutes=1),
        "gold",
        source,
        database,
        schema,
        name,
        rule,
        kind or rule.partition("(")[0],
        columns,
        severity,
        success,
        expected,
        observed,
        1_204,
        failed,
        keys,
        detail,
        False,
        "mainstem",
        7,
        9000,
        "suite",
    )


def _run(at: int) -> PastRun:
    messages = 120 + 37 * ((at * 7) % 11)
    parked = TableResult("shop.price", "PARKED", notes=("DUPLICATE_KEY  found: two rows of key 7",))
    tables = (TableResult("shop.orders", "ok", 40, 12, 3, late=at % 4), *((parked,) if at < 2 else ()))
    counts = {
        "messages": messages,
        "changes": messages - 9,
        "applied": messages - 9,
        "merged": 20,
        "quarantined": 5 if at in (0, 7) else 0,
    }
    errors = (
        ("KAFKA_UNREACHABLE\n  found: no broker answers\n  where: source crm\n  do:    look at the broker",)
        if at == 11
        else ()
    )
    return PastRun(f"{at:012x}", ago(hours=at), 8.0 + messages / 40, counts, tables, errors)


def harmful() -> Report:
    """Each harmful text in every place that takes text."""
    places = [TableKey(text, text, text, text) for text in HARMFUL]
    return Report(
        pipeline="shop",
        lakehouse=HARMFUL[0],
        version="0.1.0",
        generated_at=NOW,
        sources=tuple(Source(text, "canal", "files", 1) for text in HARMFUL),
        messages=12,
        runs=(
            PastRun(
                HARMFUL[0],
                ago(hours=1),
                1.0,
                {"messages": 12},
                tuple(TableResult(t, "PARKED", notes=(t,)) for t in HARMFUL),
                HARMFUL,
            ),
            PastRun("0", ago(hours=2), 1.0, {"messages": 12}),
        ),
        outcomes=tuple(
            OutcomeCount(place, "row", 1, 0, ago(hours=1), ago(hours=1), (0,)) for place in places
        ),
        tables=tuple(
            Table(p, "parked", t, "/r", None, (t,), 1, 0, ago(hours=1), 1, 1, 1, (Column(t, t),), t)
            for p, t in zip(places, HARMFUL, strict=True)
        ),
        waiting=tuple(Waiting(place, 1, ago(hours=1)) for place in places),
        stops=tuple(Stop(text, 1, text, 0, 1, text, text) for text in HARMFUL),
        refusals=tuple(Refusal(text, "canal", "not_json", 1, ago(hours=1), ago(hours=1)) for text in HARMFUL),
        refused=tuple(
            Refused(
                t,
                "canal",
                t,
                0,
                at,
                "not_json",
                t,
                excerpt(t.encode(), None),
                excerpt(t.encode(), None),
                ago(hours=1),
            )
            for at, t in enumerate(HARMFUL)
        ),
        schema_changes=tuple(
            SchemaChange(p, "statement", ago(hours=1), t, t) for p, t in zip(places, HARMFUL, strict=True)
        ),
        bad_values=tuple(
            BadValues(p, t, "not_canonical", 1, t, t) for p, t in zip(places, HARMFUL, strict=True)
        ),
        batches=(Batch(0, ago(hours=1), ago(hours=1), 12),),
        checks=tuple(
            replace(
                check(t, t, passed, failed=3, keys=(t,), expected=t, observed=t, detail=t),
                source=t,
                database=t,
                schema=t,
                table=t,
            )
            for t in HARMFUL
            for passed in (False, True, None)
        ),
    )


def great(table_count: int = 200, run_count: int = 50) -> Report:
    """As many tables and runs as a large pipeline has, each with checks and changes,
    and all the samples there may be.
    """
    places = [
        TableKey(f"source_{at % 8}", f"database_{at % 10}", None, f"table_with_a_long_name_{at}")
        for at in range(table_count)
    ]
    results = tuple(
        TableResult(place.name, "ok", 1_000, 200, 30, 4, ("column added: note string",)) for place in places
    )
    counts = {"messages": 100_000, "changes": 90_000, "applied": 90_000}
    return Report(
        pipeline="warehouse",
        lakehouse="s3://bucket/lakehouse",
        version="0.1.0",
        generated_at=NOW,
        sources=tuple(Source(f"source_{at}", "canal", "kafka", 1) for at in range(8)),
        messages=10_000_000,
        runs=tuple(PastRun(f"{at:012x}", ago(hours=at), 60.0, counts, results) for at in range(run_count)),
        outcomes=tuple(
            OutcomeCount(p, kind, 1_000 + at, 0, ago(hours=1), ago(hours=1), (9,))
            for at, p in enumerate(places)
            for kind in ("row", "duplicate")
        ),
        tables=tuple(
            Table(
                p,
                "active",
                None,
                f"/r/{p.name}",
                None,
                ("id", "line"),
                40,
                9,
                ago(hours=1),
                1_000,
                3,
                900,
                tuple(Column(f"a_column_{at}", "decimal(38,10)") for at in range(40)),
            )
            for p in places
        ),
        refusals=tuple(
            Refusal(f"source_{at}", "canal", "not_json", 9, ago(hours=1), ago(hours=1)) for at in range(8)
        ),
        refused=tuple(
            Refused(
                "source_1",
                "canal",
                "topic",
                0,
                at,
                "not_json",
                "line 1",
                None,
                excerpt(b'{"a":"<b>"}' * 363, 90_000),
                ago(hours=1),
            )
            for at in range(60)
        ),
        schema_changes=tuple(
            SchemaChange(
                places[at % table_count],
                "statement",
                ago(hours=at),
                "column note string added",
                "ALTER TABLE x " * 20,
            )
            for at in range(300)
        ),
        bad_values=tuple(
            BadValues(places[at % table_count], f"column_{at}", "precision", at, "9.99999" * 20, "c" * 32)
            for at in range(500)
        ),
        batches=tuple(Batch(at, ago(hours=at), ago(hours=at + 1), 1_000) for at in range(50)),
        checks=tuple(
            check(
                p.name, rule, at % 50 > 0, source=p.source, keys=("id=1", "id=2") * 10 if at % 50 == 0 else ()
            )
            for at, p in enumerate(places)
            for rule in ("not_null", "unique", "freshness", "row_count")
        ),
    )
