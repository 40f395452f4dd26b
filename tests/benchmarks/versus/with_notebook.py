"""A notebook by hand for this one table: it keeps the raw lines, and merges the newest change of each key.

It has no quarantine, no halves of updates and no memory of deleted rows, and knows the columns by heart.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

from delta.tables import DeltaTable
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from framework.spark.resolution import verified_jars

TYPES = {
    "id": "bigint",
    "n": "bigint",
    "amount": "decimal(18,4)",
    "at": "timestamp_ntz",
    **{f"s{i}": "string" for i in range(6)},
}
_IMAGE = "struct<dataColumn:map<string,string>>"
_MESSAGE = f"payload struct<op:string,sequenceId:string,before:{_IMAGE},after:{_IMAGE}>"


def main(folder: Path) -> None:
    spark: SparkSession | None = None
    for _ in sys.stdin:
        spark = spark or _session()
        _round(spark, folder)
        print("round done", flush=True)


def _session() -> SparkSession:
    settings = {
        "spark.driver.memory": "2g",
        "spark.jars": ",".join(verified_jars(kafka=False)),
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": str(2 * (os.cpu_count() or 1)),
        "spark.databricks.delta.snapshotPartitions": "1",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    builder = SparkSession.builder.master("local[*]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def _round(spark: SparkSession, folder: Path) -> None:
    raw, target = str(folder / "raw"), str(folder / "item")
    if not DeltaTable.isDeltaTable(spark, target):
        empty = ", ".join(f"{name} {kind}" for name, kind in TYPES.items())
        spark.createDataFrame([], f"{empty}, _sequence bigint").write.format("delta").save(target)

    def keep(lines: DataFrame, number: int) -> None:
        lines.write.format("delta").mode("append").save(raw)

    def apply(lines: DataFrame, number: int) -> None:
        target_table = DeltaTable.forPath(lines.sparkSession, target).alias("t")
        columns = {name: f"s.{name}" for name in (*TYPES, "_sequence")}
        (
            target_table.merge(newest(lines).alias("s"), "t.id = s.id")
            .whenMatchedDelete("s._op = 'DELETE' AND t._sequence <= s._sequence")
            .whenMatchedUpdate("t._sequence <= s._sequence", columns)
            .whenNotMatchedInsert("s._op <> 'DELETE'", columns)
            .execute()
        )

    _stream(spark.readStream.schema("value string").text(str(folder / "landing")), keep, folder / "keep")
    _stream(spark.readStream.format("delta").load(raw), apply, folder / "apply")


def newest(lines: DataFrame) -> DataFrame:
    """The newest change of each key, with typed columns."""
    message = lines.select(F.from_json("value", _MESSAGE).alias("m")).select("m.payload.*")
    image = F.coalesce("after.dataColumn", "before.dataColumn")
    changes = message.where("op <> 'UPDATE_BEFOR'").select(
        *(image[name].cast(kind).alias(name) for name, kind in TYPES.items()),
        F.col("op").alias("_op"),
        F.col("sequenceId").cast("bigint").alias("_sequence"),
    )
    order = F.row_number().over(Window.partitionBy("id").orderBy(F.desc("_sequence")))
    return changes.withColumn("_order", order).where("_order = 1")


def _stream(frame: DataFrame, write: Callable[[DataFrame, int], None], checkpoint: Path) -> None:
    writer = frame.writeStream.trigger(availableNow=True).option("checkpointLocation", str(checkpoint))
    writer.foreachBatch(write).start().awaitTermination()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
