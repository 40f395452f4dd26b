"""The flow of Spark's declarative pipelines: `spark-pipelines` runs it in the folder of a project."""

from __future__ import annotations

from pathlib import Path

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

TYPES = {
    "id": "bigint",
    "n": "bigint",
    "amount": "decimal(18,4)",
    "at": "timestamp_ntz",
    **{f"s{i}": "string" for i in range(6)},
}
_IMAGE = "struct<dataColumn:map<string,string>>"
_MESSAGE = f"payload struct<op:string,sequenceId:string,before:{_IMAGE},after:{_IMAGE}>"
_LANDING = Path(__file__).parents[1] / "landing"


@dp.temporary_view
def changes() -> DataFrame:
    lines = SparkSession.active().readStream.format("text").schema("value string").load(str(_LANDING))
    message = lines.select(F.from_json("value", _MESSAGE).alias("m")).select("m.payload.*")
    image = F.coalesce("after.dataColumn", "before.dataColumn")
    return message.where("op <> 'UPDATE_BEFOR'").select(
        *(image[name].cast(kind).alias(name) for name, kind in TYPES.items()),
        F.col("op").alias("_op"),
        F.col("sequenceId").cast("bigint").alias("_sequence"),
    )


dp.create_streaming_table("item")
dp.create_auto_cdc_flow(  # type: ignore[attr-defined]
    target="item",
    source="changes",
    keys=["id"],
    sequence_by="_sequence",
    apply_as_deletes="_op = 'DELETE'",
    except_column_list=["_op", "_sequence"],
    stored_as_scd_type=1,
)
