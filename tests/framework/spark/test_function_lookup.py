"""What PySpark asks the JVM for while it builds columns."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F

from framework.spark.function_lookup import remember_functions
from framework.spark.session import is_connect


def built(number: int) -> Column:
    return F.coalesce(F.col("id") + number, F.lit(number), F.when(F.col("id") > 1, F.upper(F.lit("x"))))


def test_a_function_is_looked_up_once(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    if is_connect(spark):
        pytest.skip("Spark Connect builds columns without a JVM")
    from py4j.clientserver import JavaClient

    commands: list[str] = []
    send = JavaClient.send_command

    def counted(client: Any, command: str, *more: Any, **options: Any) -> Any:
        commands.append(command)
        return send(client, command, *more, **options)

    remember_functions(spark)
    built(1)
    monkeypatch.setattr(JavaClient, "send_command", counted)
    column = built(2)
    assert commands
    assert [command for command in commands if command.startswith("r\n")] == []
    assert spark.range(3).select(column.cast("string")).collect() == [("2",), ("3",), ("4",)]
    assert "functions" in vars(spark.sparkContext._jvm)
