"""Random statements between rows: each value stands under the name that its own column has in the end."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import pytest
from pyspark.sql import SparkSession

from framework.config.tables import SchemaPolicy
from framework.contracts.ddl_actions import AddColumn, ChangeType, DropColumn, RenameColumn
from gold.changes.profile import Profile, namings_for
from gold.schema.case_matching import match_case
from gold.schema.columns import ColumnNaming, ordered_names, replaced_columns
from gold.schema.lineage import ColumnAction, Lineage
from gold.schema.type_inference import ColumnEvidence
from tests.amounts import IS_LARGE
from tests.gold.schema.test_column_names import whole_rows
from tests.gold.schema.test_columns import lineage as lineage_of
from tests.gold.silver_builder import ChangeSpec, GoldPipeline, copied, ddl, insert, update

SEED = os.environ.get("MAINSTEM_SEED") or "20240301"
TABLES = 20_000 if IS_LARGE else 1_500
NAMES = ("a", "b", "c", "Note", "x")


@dataclass
class Column:
    """A column of the source, whatever it is called: `said` are the names that rows used, by naming."""

    name: str
    default: str | None = None
    added_at: int = 0
    is_dropped: bool = False
    said: dict[int, str] = field(default_factory=dict)
    kept_as: str = ""
    drop_number: int = 0


class Source:
    """A table whose columns are renamed, dropped and added between rows;
    names are not case-sensitive in statements.
    """

    def __init__(self, seed: str) -> None:
        self.draw = Random(seed)
        self.columns = [Column(name) for name in self.draw.sample(NAMES, 3)]
        self.steps: list[ColumnAction] = []
        self.changes: list[ChangeSpec] = []
        self.rows: dict[int, dict[int, str]] = {}
        self.say()

    def play(self, steps: int) -> Source:
        for _ in range(steps):
            self.draw.choice(
                (self.add, self.drop, self.rename, self.rename, self.respell, self.retype, self.swap)
            )()
        if self.draw.random() < 0.8:
            self.say()
        return self

    def living(self) -> list[Column]:
        return [column for column in self.columns if not column.is_dropped]

    def free(self) -> list[str]:
        used = {column.name.lower() for column in self.living()}
        return [name for name in (*NAMES, *(name.swapcase() for name in NAMES)) if name.lower() not in used]

    def spelled(self, name: str) -> str:
        return self.draw.choice((name, name, name.upper(), name.lower()))

    def step(self, action: ColumnAction) -> None:
        self.steps.append(action)
        self.changes.append(ddl("t", len(self.changes) + 1, action))
        if self.draw.random() < 0.6:
            self.say()

    def say(self) -> None:
        """Rows are written now."""
        for column in self.living():
            column.said[len(self.steps)] = column.name
        is_new = not self.rows or self.draw.random() < 0.6
        number, at = (
            (len(self.rows) + 1 if is_new else self.draw.choice(list(self.rows))),
            len(self.changes) + 1,
        )
        values = {
            place: f"{at}.{place}" for place, column in enumerate(self.columns) if not column.is_dropped
        }
        image = {"id": str(number), **{self.columns[place].name: value for place, value in values.items()}}
        self.changes.append(insert("t", at, image) if is_new else update("t", at, None, image))
        self.rows[number] = values

    def add(self) -> None:
        if self.free():
            default = self.draw.choice((None, "7"))
            self.come_back(name := self.draw.choice(self.free()))
            self.columns.append(Column(name, default, len(self.steps) + 1))
            for values in self.rows.values():
                values |= {len(self.columns) - 1: default} if default else {}
            self.step(AddColumn(name, "string", "text", default=default))

    def drop(self) -> None:
        if len(self.living()) > 1:
            column = self.draw.choice(self.living())
            column.is_dropped, column.kept_as = True, column.name
            column.drop_number = 1 + sum(isinstance(step, DropColumn) for step in self.steps)
            self.step(DropColumn(self.spelled(column.name)))

    def rename(self) -> None:
        if self.free():
            self.renamed(self.draw.choice(self.living()), self.draw.choice(self.free()))

    def respell(self) -> None:
        column = self.draw.choice(self.living())
        self.renamed(column, column.name.swapcase())

    def swap(self) -> None:
        if len(self.living()) > 1:
            one, other = self.draw.sample(self.living(), 2)
            names = one.name, other.name
            self.renamed(one, "t")
            self.renamed(other, names[0])
            self.renamed(one, names[1])

    def retype(self) -> None:
        self.step(ChangeType(self.spelled(self.draw.choice(self.living()).name), "string", "text"))

    def come_back(self, name: str) -> None:
        """Dropped columns of this name step aside."""
        for column in self.columns:
            if column.is_dropped and column.kept_as.lower() == name.lower():
                column.kept_as = f"_cdc_dropped_{column.drop_number}_{column.name}"

    def renamed(self, column: Column, to: str) -> None:
        self.come_back(to)
        old, column.name = self.spelled(column.name), to
        self.step(RenameColumn(old, to))


def namings(source: Source, policy: SchemaPolicy) -> tuple[Lineage, tuple[ColumnNaming, ...]]:
    seen = {
        (naming, name): ColumnEvidence() for column in source.columns for naming, name in column.said.items()
    }
    known = match_case(lineage_of(*source.steps), seen)
    column_orders = whole_rows(seen)
    assert not replaced_columns(known, column_orders)
    return known, namings_for(known, policy, Profile(evidence=seen, column_orders=column_orders))


@pytest.mark.parametrize("policy", [SchemaPolicy.LENIENT, SchemaPolicy.EVOLVE])
def test_each_value_stands_under_its_columns_name_of_today(policy: SchemaPolicy) -> None:
    for number in range(TABLES):
        source = Source(f"{SEED} {number}").play(number % 9)
        known, found = namings(source, policy)
        description = (
            f"seed {SEED}, table {number}: {source.steps}, matched "
            f"{[action for _, action in known.column_changes]}"
        )
        final = []
        for column in source.columns:
            names = {found[naming].current_name(name) for naming, name in column.said.items()}
            assert len(names) <= 1, f"{description}: {column} has the names {names}"
            if not names:
                continue
            (name,) = names
            final.append(name)
            if not column.is_dropped:
                assert name == column.name, f"{description}: {column} is {name}"
            elif policy is SchemaPolicy.EVOLVE:
                assert name is None or len(source.steps) in column.said, f"{description}: {column} is {name}"
            if column.default and name is not None:
                without = [i for i in range(column.added_at) if name not in found[i].defaults]
                assert not without, f"{description}: {column} has no default in the namings {without}"
        kept = [name.lower() for name in final if name is not None]
        assert len(set(kept)) == len(kept), f"{description}: {final}"
        assert ordered_names((), known, found) is not None


def expected(source: Source) -> list[dict[str, object]]:
    """The rows of the replica: dropped columns are kept, under the names that they had."""
    names = [column.kept_as if column.is_dropped else column.name for column in source.columns]
    return [
        {"id": number, **{names[place]: value for place, value in source.rows[number].items()}}
        for number in sorted(source.rows)
    ]


@pytest.mark.slow
def test_tables_follow_their_statements_whenever_they_arrive(spark: SparkSession, tmp_path: Path) -> None:
    count, batches = (40, 4) if IS_LARGE else (1, 2)
    sources = {f"t{number}": Source(f"{SEED} whole {number}").play(4 + number % 6) for number in range(count)}
    if IS_LARGE:
        sources["altered"] = Source(f"{SEED} altered").play(100)
    gold, draw = GoldPipeline(spark, tmp_path), Random(SEED)
    parts: list[list[ChangeSpec]] = [[] for _ in range(batches)]
    for name, source in sources.items():
        for place, event in enumerate(copied(source.changes, name)):
            own = place * batches // len(source.changes)
            parts[draw.randrange(batches) if draw.random() < 0.3 else own].append(event)
    for part in parts:
        draw.shuffle(part)
        gold.add_batch(*part)
        gold.apply()
    wrong = []
    for name, source in sources.items():
        assert gold.state(name).reason is None, f"seed {SEED}, {name}"
        for is_rebuilt in (False, True) if IS_LARGE else (False,):
            if is_rebuilt:
                gold.rebuild(name)
            if gold.rows(name) != expected(source):
                story = "\n".join(
                    f"  {next(i for i, p in enumerate(parts) if e in p)}: {e}"
                    for e in copied(source.changes, name)
                )
                wrong.append(
                    f"{name} ({is_rebuilt=}):\n{story}\nfound {gold.rows(name)}\nexpected {expected(source)}"
                )
                break
    assert not wrong, f"seed {SEED}: {len(wrong)} of {len(sources)} differ\n" + min(wrong, key=len)
