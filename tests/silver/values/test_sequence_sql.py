"""The Spark SQL expressions over sequences say the same as the functions over texts."""

from __future__ import annotations

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from framework.contracts.full_loads import epoch_part
from silver.values import sequence as s

SEQUENCES = {
    "011.011.015.orders.010.017.010": (1, "011", False, ".orders.010.017.010", "011.011.015"),
    "0212.011.03120.part-0210010%2Ejson.010.0215.012": (
        *(12, "0212", False),
        *(".part-0210010%2Ejson.010.0215.012", "0212.011.03120"),
    ),
    "011.011.013.017.018.019.010": (1, "011", False, "", "011.011.013.017.018.019.010"),
    "011.011.015": (1, "011", False, "", "011.011.015"),
    "011.010.orders.010.0215.012": (1, "011", True, ".orders.010.0215.012", "011.010"),
}


def test_sequences_and_what_the_expressions_return(spark: SparkSession) -> None:
    frame = spark.createDataFrame([(text,) for text in (*SEQUENCES, None)], "sequence string")
    makers = (s.epoch_sql, s.epoch_part_sql, s.is_snapshot_sql, s.tie_sql, s.without_tie_sql)
    rows = frame.select("sequence", *(F.expr(make("sequence")) for make in makers)).collect()
    assert {row[0]: tuple(row[1:]) for row in rows} == {**SEQUENCES, None: (None,) * 5}
    assert {text: (s.epoch_of(text), epoch_part(text)) for text in SEQUENCES} == {
        text: values[:2] for text, values in SEQUENCES.items()
    }


def test_a_text_that_is_no_sequence_has_no_epoch(spark: SparkSession) -> None:
    frame = spark.createDataFrame([("",), ("x.y",), ("damaged",)], "sequence string")
    assert [row[0] for row in frame.select(F.expr(s.epoch_sql("sequence"))).collect()] == [None] * 3
