"""What happens in the demo's source databases: a small shop, change by change, with the tables that it ends
with.

Values are canonical text; how each vendor writes them is `wires.py`. Everything is invented, and the same at
every run: the random numbers are seeded, and only `Random.random` is used, whose sequence Python promises to
keep.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random

START = 1_709_283_600
"""2024-03-01T09:00:00Z."""

Row = dict[str, str | None]


@dataclass
class Table:
    """A table of a source database with its rows as they are now;
    `types` are canonical, in the source's own order.
    """

    feed: str
    database: str
    name: str
    keys: tuple[str, ...]
    types: dict[str, str]
    rows: dict[tuple[str | None, ...], Row] = field(default_factory=dict)

    def key_of(self, row: Mapping[str, str | None]) -> tuple[str | None, ...]:
        return tuple(row[name] for name in self.keys)


@dataclass(frozen=True)
class Change:
    """A row that was written: `number` orders all that happens in a source,
    `at` is in milliseconds of the epoch.
    """

    table: Table
    op: str
    before: Row | None
    after: Row | None
    types: Mapping[str, str]
    number: int
    at: int
    part: int


@dataclass(frozen=True)
class Marker:
    """Something that is no row: `kind` is begin, end, heartbeat or ddl."""

    kind: str
    feed: str
    table: Table | None
    text: str | None
    number: int
    at: int
    part: int


Event = Change | Marker


class Story:
    """Records what happens; `part` says in which drop of files it will be found."""

    def __init__(self, seed: int = 20_240_301) -> None:
        self.events: list[Event] = []
        self.tables: list[Table] = []
        self.part = 1
        self._random = Random(seed)
        self._now = START * 1000
        self._number = 0

    def table(self, place: tuple[str, str, str], keys: Sequence[str], types: Mapping[str, str]) -> Table:
        """A new table; `place` is its feed, database and name."""
        feed, database, name = place
        table = Table(feed, database, name, tuple(keys), dict(types))
        self.tables.append(table)
        return table

    def read(self, table: Table, *rows: Sequence[str | None]) -> None:
        """Rows of a snapshot."""
        for values in rows:
            self._write(table, "read", None, dict(zip(table.types, values, strict=True)))

    def insert(self, table: Table, *rows: Sequence[str | None]) -> None:
        """New rows, their values in the order of the table's columns."""
        for values in rows:
            self._write(table, "insert", None, dict(zip(table.types, values, strict=True)))

    def update(self, table: Table, key: Sequence[str], **changed: str | None) -> None:
        """A row with other values, its key perhaps among them."""
        before = table.rows[tuple(key)]
        self._write(table, "update", before, {**before, **changed})

    def delete(self, table: Table, *keys: Sequence[str | None]) -> None:
        """Rows that go."""
        for key in keys:
            self._write(table, "delete", table.rows[tuple(key)], None)

    def add_column(self, table: Table, name: str, kind: str, statement: str) -> None:
        """A column that is null in the rows there are."""
        self.mark("ddl", table.feed, statement, table)
        table.types[name] = kind
        for row in table.rows.values():
            row[name] = None

    def mark(self, kind: str, feed: str, text: str | None = None, table: Table | None = None) -> None:
        """A message that is no row."""
        number, at = self._tick()
        self.events.append(Marker(kind, feed, table, text, number, at, self.part))

    def of(self, feed: str) -> Iterator[Event]:
        """What happens in one feed, in its order."""
        for event in self.events:
            if (event.table.feed if isinstance(event, Change) else event.feed) == feed:
                yield event

    def _write(self, table: Table, op: str, before: Row | None, after: Row | None) -> None:
        number, at = self._tick()
        copies = (dict(before) if before is not None else None, dict(after) if after is not None else None)
        self.events.append(Change(table, op, *copies, dict(table.types), number, at, self.part))
        if before is not None:
            del table.rows[table.key_of(before)]
        if after is not None:
            assert table.key_of(after) not in table.rows
            table.rows[table.key_of(after)] = dict(after)

    def _tick(self) -> tuple[int, int]:
        self._number += 1
        self._now += 200 + int(self._random.random() * 1_800)
        return self._number, self._now


def tell() -> Story:
    """The whole story, in two parts."""
    story = Story()
    _shop(story)
    _prices(story)
    _side_feeds(story)
    _staff(story)
    story.events.sort(key=lambda event: event.number)
    return story


def _day(day: int, time: str = "09:00:00") -> str:
    return f"2024-03-{day:02d}T{time}.000Z"


def _shop(story: Story) -> None:
    """Three related tables, captured together."""
    feed = "shop"
    customer = story.table(
        (feed, "shop", "customer"),
        ["id"],
        {
            "id": "bigint",
            "name": "string",
            "city": "string",
            "is_member": "boolean",
            "rating": "double",
            "since": "timestamp",
            "badge": "binary",
        },
    )
    orders = story.table(
        (feed, "shop", "orders"),
        ["id"],
        {
            "id": "bigint",
            "customer_id": "bigint",
            "status": "string",
            "total": "decimal(12,2)",
            "placed_at": "timestamp",
        },
    )
    line = story.table(
        (feed, "shop", "order_line"),
        ["order_id", "line_no"],
        {
            "order_id": "bigint",
            "line_no": "bigint",
            "sku": "string",
            "quantity": "bigint",
            "unit_price": "decimal(10,2)",
        },
    )
    first = 9_000_000_000_000_000_000
    ids = [str(first + number) for number in range(1, 9)]
    people = [
        ("Ada Tulip", "Utrecht", "true", "4.5"),
        ("Björn Ålesund", "Göteborg", "false", "3.25"),
        ("周 小雨", "杭州", "true", "4.75"),
        ("Zoë O'Fennel", "Galway", "false", None),
        ("🦊 Fox & Sons", "Tromsø", "false", "4.0"),
        ("Ίρις Λεμονή", "Πάτρα", "false", "5.0"),
        ('Noor "the" Quill', "Den Haag", "true", "3.5"),
        ("Márton Körte", "Győr", "true", "2.5"),
    ]
    badges = ["AQI=", None, "/wD+", "", "8J+mig==", "bWVtYmVy", "AA==", None]
    for number, (identity, person, badge) in enumerate(zip(ids, people, badges, strict=True)):
        story.insert(customer, (identity, *person, _day(1, f"08:{10 + number}:00"), badge))

    skus = ["TEA-GREEN", "TEA-WHITE", "CUP-BLUE", "POT-IRON", "KETTLE-1L", "茶-乌龙"]
    prices = ["4.90", "6.25", "11.00", "48.50", "32.00", "7.75"]
    for number in range(1, 13):
        order, buyer = str(100 + number), ids[number * 5 % 7]
        lines = [(number + step) % 6 for step in range(1 + number % 3)]
        total = sum(int(prices[at].replace(".", "")) * (1 + at % 3) for at in lines)
        story.mark("begin", feed)
        story.insert(
            orders, (order, buyer, "new", f"{total // 100}.{total % 100:02d}", _day(1, f"09:{number:02d}:30"))
        )
        for place, at in enumerate(lines, 1):
            story.insert(line, (order, str(place), skus[at], str(1 + at % 3), prices[at]))
        story.mark("end", feed)
    for order in ("101", "102", "103", "105", "107", "108", "111"):
        story.update(orders, (order,), status="paid")
    story.update(customer, (ids[1],), city="Malmö", rating="3.75")
    story.update(customer, (ids[3],), is_member="true")
    story.update(line, ("104", "1"), quantity="5")
    story.delete(line, *[key for key in list(line.rows) if key[0] == "106"])
    story.delete(orders, ("106",))
    story.mark("heartbeat", feed)

    story.part = 2
    story.add_column(
        orders,
        "gift_note",
        "string",
        "ALTER TABLE `orders` ADD COLUMN `gift_note` VARCHAR(200) NULL COMMENT 'as the customer wrote it'",
    )
    story.insert(
        orders,
        ("113", ids[2], "new", "22.00", _day(1, "10:02:10"), "生日快乐！"),
        ("114", ids[4], "new", "9.80", _day(1, "10:04:00"), None),
    )
    story.insert(line, ("113", "1", "CUP-BLUE", "2", "11.00"), ("114", "1", "TEA-GREEN", "2", "4.90"))
    for order in ("101", "103", "107"):
        story.update(
            orders, (order,), status="sent", gift_note="Thank you, and enjoy!" if order == "103" else None
        )
    story.update(orders, ("105",), total="99.99")
    story.update(line, ("105", "2"), line_no="7")
    story.update(customer, (ids[6],), name="Noor Quill", badge=None)
    story.delete(customer, (ids[7],))
    story.insert(customer, (str(first + 9), "Σofia Nimbus", "Faro", "false", None, _day(1, "10:06:00"), None))
    story.mark("heartbeat", feed)
    story.part = 1


def _prices(story: Story) -> None:
    """One table whose feed names neither keys nor types."""
    price = story.table(
        ("prices", "shop", "price"),
        ["sku"],
        {
            "sku": "string",
            "price": "decimal(21,2)",
            "currency": "string",
            "in_stock": "boolean",
            "valid_from": "date",
        },
    )
    rows = [
        ("TEA-GREEN", "4.90"),
        ("TEA-WHITE", "6.25"),
        ("CUP-BLUE", "11.00"),
        ("POT-IRON", "48.50"),
        ("KETTLE-1L", "32.00"),
        ("茶-乌龙", "7.75"),
    ]
    story.insert(price, *[(sku, amount, "EUR", "true", "2024-01-01") for sku, amount in rows])
    story.insert(price, ("007", "1250.00", "SEK", "false", "2024-02-29"))
    story.update(price, ("TEA-GREEN",), price="5.10", valid_from="2024-03-01")
    story.update(price, ("POT-IRON",), in_stock="false")
    story.update(price, ("CUP-BLUE",), price="10.50")
    story.update(price, ("KETTLE-1L",), price="29.95")
    story.delete(price, ("TEA-WHITE",))
    story.part = 2
    story.update(price, ("KETTLE-1L",), sku="KETTLE-1L-B")
    story.update(price, ("CUP-BLUE",), price="10.00", in_stock=None)
    story.insert(price, ("TEA-WHITE", "6.50", "EUR", "true", "2024-03-02"))
    story.delete(price, ("007",))
    story.part = 1


def _side_feeds(story: Story) -> None:
    """One small feed for each further format, all of it in the first part."""
    payment = story.table(
        ("payments", "billing", "payment"),
        ["id"],
        {
            "id": "bigint",
            "order_id": "bigint",
            "amount": "decimal(21,2)",
            "method": "string",
            "paid_at": "timestamp",
        },
    )
    story.insert(
        payment,
        ("70001", "101", "23.00", "card", "2024-03-01T09:20:00.012345Z"),
        ("70002", "102", "48.50", "card", "2024-03-01T09:21:00.500000Z"),
        ("70003", "103", "130.25", "转账", "2024-03-01T09:22:00.000001Z"),
        ("70004", "105", "12.40", "cash", None),
    )
    story.update(payment, ("70004",), paid_at="2024-03-01T09:31:00.000000Z")
    story.update(payment, ("70002",), amount="45.00")
    invoice = story.table(
        ("invoices", "billing", "invoice"),
        ["invoice_no"],
        {
            "invoice_no": "string",
            "order_id": "bigint",
            "net": "decimal(21,2)",
            "is_paid": "boolean",
            "remark": "string",
        },
    )
    story.insert(
        invoice,
        ("2024-0001", "101", "19.33", "false", None),
        ("2024-0002", "102", "40.76", "false", "Lieferung in zwei Päckchen"),
        ("2024-0003", "103", "109.45", "false", None),
    )
    story.update(invoice, ("2024-0001",), is_paid="true")
    story.update(invoice, ("2024-0002",), remark=None)
    account = story.table(
        ("accounts", "ledger", "account"),
        ["code"],
        {"code": "string", "title": "string", "balance": "decimal(21,2)", "opened_on": "string"},
    )
    story.insert(
        account,
        ("0400", "Fixtures", "1200.00", "2020-01-01"),
        ("1200", "Bank", "98765432109876.54", "2020-01-01"),
        ("8400", "Sales, 19 %", "-310.15", "2021-07-01"),
        ("9999", "To be checked", "0.00", "2024-02-29"),
    )
    story.update(account, ("8400",), balance="-440.40")
    booking = story.table(
        ("bookings", "ledger", "booking"),
        ["book", "entry_no"],
        {
            "book": "string",
            "entry_no": "int",
            "account": "string",
            "amount": "decimal(21,2)",
            "booked_on": "date",
            "booked_at": "timestamp_ntz",
        },
    )
    story.insert(
        booking,
        ("S", "1", "8400", "-23.00", "2024-03-01", "2024-03-01T17:20:01"),
        ("S", "2", "8400", "-48.50", "2024-03-01", "2024-03-01T17:21:01"),
        ("B", "1", "1200", "23.00", "2024-03-01", "2024-03-01T17:20:02"),
    )
    story.update(booking, ("S", "2"), amount="-45.00")
    stock = story.table(
        ("stock", "depot", "stock"),
        ["sku", "depot"],
        {
            "sku": "string",
            "depot": "int",
            "pieces": "bigint",
            "weight": "double",
            "counted_at": "timestamp_ntz",
            "note": "string",
        },
    )
    story.insert(
        stock,
        ("TEA-GREEN", "1", "120", "12.5", "2024-02-29T23:59:59.123456", None),
        ("CUP-BLUE", "1", "44", "0.35", "2024-02-29T22:00:00.000000", "fragile"),
        ("CUP-BLUE", "2", "9", "0.35", "2024-02-28T10:30:00.000000", "fragile"),
    )
    story.update(stock, ("CUP-BLUE", "2"), pieces="7")
    parcel = story.table(
        ("parcels", "fleet", "parcel"),
        ["id"],
        {
            "id": "bigint",
            "state": "string",
            "weight": "double",
            "cost": "decimal(8,2)",
            "sent_on": "date",
            "seen_at": "timestamp_ntz",
        },
    )
    story.insert(
        parcel,
        ("500001", "packed", "1.25", "6.90", "2024-03-01", "2024-03-01T17:30:00.123456"),
        ("500002", "packed", "0.4", "4.10", "2024-03-01", "2024-03-01T17:31:00.000001"),
        ("500003", "packed", "2.0", None, "2024-03-02", None),
    )
    story.update(parcel, ("500001",), state="on the way")
    region = story.table(
        ("regions", "geo", "region"),
        ["id"],
        {"id": "int", "name": "string", "tax_rate": "decimal(5,2)", "opened_on": "date"},
    )
    story.read(
        region,
        ("1", "Benelux", "21.00", "2019-05-01"),
        ("2", "Norden", "25.00", "2020-02-29"),
        ("3", "浙江", "13.00", "2021-11-11"),
    )
    story.insert(region, ("4", "Éire", "23.00", "2024-03-01"))
    review = story.table(
        ("reviews", "web", "review"),
        ["id"],
        {
            "id": "decimal(20,0)",
            "sku": "string",
            "stars": "string",
            "score": "decimal(4,2)",
            "text": "string",
            "written_at": "timestamp",
        },
    )
    story.insert(
        review,
        ("18446744073709551601", "TEA-GREEN", "good", "9.50", "Tastes of spring 🌱", "2024-03-01T08:00:00Z"),
        ("18446744073709551602", "CUP-BLUE", "fair", "6.00", "很好看，但是太小", "2024-03-01T08:30:00Z"),
        ("18446744073709551603", "POT-IRON", "poor", "2.25", None, "2024-03-01T08:45:10Z"),
    )
    story.update(review, ("18446744073709551603",), stars="fair", score="5.00")

    story.insert(payment, ("70005", "113", "22.00", "card", "2024-03-01T10:03:00.250000Z"))
    story.delete(payment, ("70001",))
    story.update(invoice, ("2024-0003",), net="109.46", is_paid="true")
    story.delete(invoice, ("2024-0001",))
    story.update(account, ("1200",), balance="98765432109899.54")
    story.delete(account, ("9999",))
    story.insert(booking, ("B", "2", "1200", "45.00", "2024-03-02", "2024-03-02T08:00:00"))
    story.delete(booking, ("S", "1"))
    story.update(stock, ("TEA-GREEN", "1"), pieces="118", counted_at="2024-03-01T23:59:59.000000")
    story.delete(stock, ("CUP-BLUE", "2"))
    story.mark("heartbeat", "stock")
    story.update(parcel, ("500002",), state="delivered", seen_at=None)
    story.delete(parcel, ("500003",))
    story.update(region, ("2",), name="Nordics")
    story.delete(region, ("3",))
    story.insert(
        review,
        ("18446744073709551604", "TEA-WHITE", "good", "8.75", "Would buy again", "2024-03-01T10:10:00Z"),
    )
    story.delete(review, ("18446744073709551602",))


def _staff(story: Story) -> None:
    """One table that gets a new column in the second part."""
    employee = story.table(
        ("staff", "hr", "employee"),
        ["id"],
        {"id": "int", "name": "string", "salary": "decimal(10,2)", "hired_on": "date"},
    )
    story.read(
        employee,
        ("1", "Ines Lagarto", "4200.00", "2018-09-01"),
        ("2", "Tomasz Żuraw", "3850.50", "2020-02-29"),
        ("3", "김 하늘", "3999.99", "2021-11-15"),
    )
    story.update(employee, ("2",), salary="4010.25")
    story.insert(employee, ("4", "Aoife Ó Dálaigh", "3600.00", "2024-03-01"))
    story.delete(employee, ("3",))
    story.part = 2
    story.add_column(employee, "team", "string", "ALTER TABLE employee ADD COLUMN team VARCHAR(40)")
    story.update(employee, ("1",), team="Roasting", salary="4350.00")
    story.insert(employee, ("5", "Nils Åkerö", "3700.00", "2024-03-01", "Packing"))
    story.part = 1
