"""The rights that a pipeline needs in Unity Catalog, and what a workspace alone can show."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from framework.cli.commands.doctor import examine
from framework.config.model import Config, load_config
from framework.lakehouse import live_checks as live
from framework.lakehouse.live_checks import LiveCheck, live_checks
from framework.lakehouse.policies import Policy
from framework.lakehouse.rights import Right, needed_rights
from framework.pipeline.session import option_models
from framework.spark.session import is_connect

PLACES = """\
pipeline: shop
lakehouse: {catalog: main, schema_prefix: shop_}
checkpoints: /Volumes/main/shop_ops/files/checkpoints
sources:
  orders: {format: canal, files: /Volumes/feeds/raw/landing/orders}
  clicks: {format: canal, files: 's3://bucket/clicks'}
  stock: {format: canal, table: legacy.cdc.stock}
"""


def configured(folder: Path, text: str) -> Config:
    (folder / "mainstem.yml").write_text(text)
    return load_config(folder / "mainstem.yml", formats=option_models())


def test_each_place_of_the_configuration_needs_its_rights_once(tmp_path: Path) -> None:
    layers = ("bronze", "silver", "gold", "ops")
    assert [right.grant("jane") for right in needed_rights(configured(tmp_path, PLACES))] == [
        "GRANT USE CATALOG ON CATALOG `main` TO `jane`",
        "GRANT USE CATALOG ON CATALOG `feeds` TO `jane`",
        "GRANT USE CATALOG ON CATALOG `legacy` TO `jane`",
        *(
            f"GRANT USE SCHEMA, CREATE TABLE, SELECT, MODIFY ON SCHEMA main.shop_{layer} TO `jane`"
            for layer in layers
        ),
        "GRANT USE SCHEMA ON SCHEMA `main`.`shop_ops` TO `jane`",
        "GRANT USE SCHEMA ON SCHEMA `feeds`.`raw` TO `jane`",
        "GRANT USE SCHEMA ON SCHEMA `legacy`.`cdc` TO `jane`",
        "GRANT READ VOLUME, WRITE VOLUME ON VOLUME `main`.`shop_ops`.`files` TO `jane`",
        "GRANT READ VOLUME ON VOLUME `feeds`.`raw`.`landing` TO `jane`",
        "GRANT READ FILES ON EXTERNAL LOCATION <the external location of s3://bucket/clicks> TO `jane`",
        "GRANT SELECT ON TABLE `legacy`.`cdc`.`stock` TO `jane`",
    ]


def test_who_grants_needs_the_right_to_manage(tmp_path: Path) -> None:
    granting = PLACES.replace("shop_}", "shop_, grants: {gold: {analysts: [SELECT]}}}")
    rights = needed_rights(configured(tmp_path, granting))
    assert [right.securable for right in rights if right.privileges == ("MANAGE",)] == [
        "SCHEMA main.shop_gold"
    ]


@pytest.mark.parametrize(
    ("place", "rights"),
    [
        (
            "table: 's3://bucket/v1.0/feed.delta'",
            ["READ FILES ON EXTERNAL LOCATION <the external location of s3://bucket/v1.0/feed.delta>"],
        ),
        (
            "table: 'abfss://c@a.dfs.core.windows.net/feed'",
            [
                "READ FILES ON EXTERNAL LOCATION <the external location of abfss://c@a.dfs.core.windows.net/feed>"
            ],
        ),
        (
            "table: 'other.raw.`my.t`'",
            [
                "USE CATALOG ON CATALOG `other`",
                "USE SCHEMA ON SCHEMA `other`.`raw`",
                "SELECT ON TABLE `other`.`raw`.`my.t`",
            ],
        ),
        ("table: '`other`.raw.t'", ["SELECT ON TABLE `other`.`raw`.`t`"]),
        ("table: raw.t", []),
        ("table: 'other..t'", []),
        ("files: 'dbfs:/Volumes/other/raw/in/b'", ["READ VOLUME ON VOLUME `other`.`raw`.`in`"]),
        ("files: 'dbfs:///Volumes/other/raw/in/b'", ["READ VOLUME ON VOLUME `other`.`raw`.`in`"]),
    ],
)
def test_a_source_needs_the_rights_of_its_kind_of_place(
    tmp_path: Path, place: str, rights: list[str]
) -> None:
    text = PLACES[: PLACES.index("  orders:")] + f"  feed: {{format: canal, {place}}}\n"
    config = configured(tmp_path, text)
    found = [right for right in needed_rights(config) if right.purpose == "the source feed"]
    shown = [f"{', '.join(right.privileges)} ON {right.securable}" for right in found]
    assert shown[-len(rights) :] == rights if rights else shown == []
    is_watched = any(check.name == "auto loader feed" for check in live_checks(config))
    assert is_watched == ("dbfs:" in place)


def test_folders_of_this_machine_need_no_grant(tmp_path: Path) -> None:
    text = "pipeline: shop\nlakehouse: ./lake\nsources: {feed: {format: canal, files: ./landing}}\n"
    assert needed_rights(configured(tmp_path, text)) == []


@pytest.fixture
def schemas(spark: SparkSession) -> Iterator[None]:
    for layer in ("bronze", "silver", "gold"):  # not ops: its right is missing
        spark.sql(f"CREATE DATABASE rights_{layer}")
    yield
    for layer in ("bronze", "silver", "gold"):
        spark.sql(f"DROP DATABASE rights_{layer} CASCADE")


@pytest.mark.usefixtures("schemas")
def test_a_right_that_is_missing_is_told_with_its_grant_and_probes_leave_nothing(
    spark: SparkSession, tmp_path: Path
) -> None:
    config = configured(
        tmp_path,
        "pipeline: shop\nlakehouse: {catalog: spark_catalog, schema_prefix: rights_}\n"
        "checkpoints: ./checkpoints\nsources: {feed: {format: canal, files: ./landing}}\n",
    )
    findings = examine(spark, needed_rights(config))
    (missing,) = (finding for finding in findings if not finding.ok)
    assert "SCHEMA spark_catalog.rights_ops: AnalysisException" in missing.found
    user = spark.sql("SELECT current_user()").first()
    assert user is not None
    assert missing.action == (
        f"GRANT USE SCHEMA, CREATE TABLE, SELECT, MODIFY ON SCHEMA spark_catalog.rights_ops TO `{user[0]}`"
    )
    assert len(findings) == 5
    assert spark.sql("SHOW TABLES IN rights_gold").collect() == []


def test_a_volume_is_tried_by_writing_and_listing(tmp_path: Path) -> None:
    from framework.lakehouse.rights import _listed, _writable

    session: Any = None
    _writable(str(tmp_path / "checkpoints"))(session)
    assert list((tmp_path / "checkpoints").iterdir()) == []
    _listed(str(tmp_path))(session)
    for probe in (_listed(str(tmp_path / "none")), _writable("/proc/none")):
        with pytest.raises(OSError, match="none"):
            probe(session)


class Workspace:
    """Stands for a session: it answers queries, notes statements, and fails where it is told to."""

    version = "4.1.0"

    def __init__(self, refused: str = "nothing") -> None:
        self.statements: list[str] = []
        self.refused = refused

    def sql(self, statement: str) -> Workspace:
        self.statements.append(statement)
        if self.refused in statement:
            raise PySparkException("[PERMISSION_DENIED] no")
        return self

    def first(self) -> tuple[object]:
        return (2,)


def live_findings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, session: Workspace, *, are_kept: bool
) -> dict[str, tuple[bool, str]]:
    policies = [Policy(name) for name in ("filter", "mask", "tag")]
    answers = iter([policies, policies if are_kept else policies[1:]])
    monkeypatch.setattr(live, "policies_of", lambda *_: next(answers))
    text = PLACES.replace("  clicks: {format: canal, files: 's3://bucket/clicks'}\n", "")
    checks = live_checks(configured(tmp_path, text))
    given: Any = session
    return {f.name: (f.ok, f.found) for f in examine(given, (), checks)}


def test_the_live_checks_replace_a_table_with_policies_and_leave_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = Workspace()
    assert live_findings(tmp_path, monkeypatch, session, are_kept=True) == {
        "runtime": (True, "Spark 4.1.0"),
        "policies stay": (True, "row filter, column mask and tag stay when a table is replaced"),
        "lineage": (True, "2 tables have lineage"),
    }
    made = [
        text.split()[2] for text in session.statements if text.startswith(("CREATE TABLE", "CREATE FUNC"))
    ]
    dropped = [text.split()[-1] for text in session.statements if text.startswith("DROP")]
    assert {name.split("(")[0] for name in made} == set(dropped)
    assert all(name.startswith("main.shop_ops._mainstem_doctor_") for name in dropped)


def test_lost_policies_and_missing_rights_fail_a_live_check(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = live_findings(tmp_path, monkeypatch, Workspace("system.access"), are_kept=False)
    assert found["policies stay"] == (
        False,
        "ValueError: a replacement loses 1 of 3 policies: filter",
    )
    assert not found["lineage"][0]


def test_an_error_of_the_jvm_ends_neither_the_rights_nor_the_checks(spark: SparkSession) -> None:
    if is_connect(spark):
        pytest.skip("a client of Spark Connect has no JVM")

    def refused(session: SparkSession) -> str:
        jvm: Any = session._jvm
        return str(jvm.java.lang.Integer.parseInt("no storage key"))

    rights = [Right(("SELECT",), f"TABLE {name}", "a source", refused) for name in ("a", "b")]
    findings = examine(spark, rights, [LiveCheck("check", refused, "look")])
    assert [(finding.ok, "no storage key" in finding.found) for finding in findings] == [(False, True)] * 3
    assert findings[1].action.startswith("GRANT SELECT ON TABLE b TO")


def test_a_right_that_cannot_be_tried_is_told_as_not_tried() -> None:
    session: Any = Workspace()
    (finding,) = examine(session, [Right(("MANAGE",), "SCHEMA main.gold", "`grants`")])
    assert (finding.ok, finding.found) == (True, "MANAGE on SCHEMA main.gold: not tried, for `grants`")
