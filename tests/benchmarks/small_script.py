"""What somebody writes by hand for a small feed: a stream that lands, parses and merges a few tables.

It is lossy, and has no quarantine, halves, late changes or new columns. As a program, it starts Spark and
runs once: `python -m tests.benchmarks.small_script FOLDER TABLE…`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

from delta.tables import DeltaTable
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from framework.spark.resolution import verified_jars
from tests.benchmarks import feeds

_MESSAGE = (
    "schema struct<source:struct<tableName:string>>, "
    "payload struct<op:string,sequenceId:string,after:struct<dataColumn:map<string,string>>>"
)


def run(spark: SparkSession, folder: Path, tables: Iterable[str]) -> None:
    """Brings the new files of `folder`/landing into Delta tables below `folder`/by-hand."""
    place = folder / "by-hand"

    def apply(batch: DataFrame, number: int) -> None:
        session = batch.sparkSession
        batch.write.format("delta").mode("append").save(f"{place}/raw")
        parsed = batch.select(F.from_json("value", _MESSAGE).alias("m")).where("m.payload.after is not null")
        changes = parsed.select(
            F.col("m.schema.source.tableName").alias("table"),
            F.col("m.payload.sequenceId").cast("bigint").alias("_sequence"),
            *(
                F.col(f"m.payload.after.dataColumn.{name}").cast(kind).alias(name)
                for name, kind in feeds.TYPES.items()
            ),
        ).withColumn("_batch", F.lit(number))
        changes.write.format("delta").mode("append").save(f"{place}/changes")
        kept = session.read.format("delta").load(f"{place}/changes").where(F.col("_batch") == number)
        for table in tables:
            newest = F.row_number().over(Window.partitionBy("id").orderBy(F.col("_sequence").desc()))
            rows = kept.where(F.col("table") == table).withColumn("_n", newest).where("_n = 1")
            _merge(session, f"{place}/{table}", rows.drop("_n", "table", "_batch"))

    landing = spark.readStream.schema("value string").text(f"{folder}/landing/*")
    writer = landing.writeStream.trigger(availableNow=True).option(
        "checkpointLocation", f"{place}/checkpoint"
    )
    writer.foreachBatch(apply).start().awaitTermination()


def _merge(spark: SparkSession, target: str, rows: DataFrame) -> None:
    if not DeltaTable.isDeltaTable(spark, target):
        rows.write.format("delta").save(target)
        return
    merge = DeltaTable.forPath(spark, target).alias("t").merge(rows.alias("s"), "t.id = s.id")
    merge.whenMatchedUpdateAll("t._sequence <= s._sequence").whenNotMatchedInsertAll().execute()


def main(folder: str, *tables: str) -> None:
    settings = {
        "spark.master": "local[*]",
        "spark.driver.memory": "2g",
        "spark.jars": ",".join(verified_jars(kafka=False, debug=False)),
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.sql.shuffle.partitions": "4",
        "spark.sql.session.timeZone": "UTC",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    builder = SparkSession.builder
    for key, value in settings.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    run(spark, Path(folder), tables)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
