"""Dumps of tables: which rows a file holds, every cell as canonical text, with the type that the dump itself gives it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from framework.errors import ConfigurationError
from framework.names import quoted
from framework.tables import is_table

_CSV = {
    "header": "true",
    "multiLine": "true",
    "escape": '"',
    "nullValue": "\\N",
    "mode": "FAILFAST",
    "enforceSchema": "false",
    "maxCharsPerColumn": "-1",
}
_CSV_ENDINGS = (".csv", ".csv.gz")
_PLAIN = (
    T.BooleanType,
    T.ByteType,
    T.ShortType,
    T.IntegerType,
    T.LongType,
    T.FloatType,
    T.DoubleType,
    T.DateType,
    T.TimestampType,
    T.TimestampNTZType,
    T.BinaryType,
    T.DecimalType,
)
"""Types whose names in Spark are the canonical ones; values of all others are text."""


@dataclass(frozen=True, slots=True)
class Dump:
    """The rows, all of them text, and the canonical type of each column; None where the file gives none (CSV)."""

    rows: DataFrame
    columns: dict[str, str | None]


def read_dump(spark: SparkSession, path: str) -> Dump:
    """The rows of a CSV file (UTF-8, the first line names the columns), a Parquet file, a folder of such, or a Delta table.

    In CSV an empty cell and a lone `N` behind a backslash are null, and `""` is the empty text.
    """
    kind, place = _kind(spark, path)
    if kind == "csv":
        rows = spark.read.options(**_CSV).csv(place)
        rows = rows.toDF(*(name.removeprefix("\ufeff") for name in rows.columns))
        return Dump(rows, dict.fromkeys(rows.columns))
    rows = spark.read.format(kind).load(place)
    told: dict[str, str | None] = {field.name: _type(field.dataType) for field in rows.schema.fields}
    return Dump(rows.select(*(_text(field).alias(field.name) for field in rows.schema.fields)), told)


def _kind(spark: SparkSession, path: str) -> tuple[str, str]:
    if "://" in path:
        kind = "csv" if path.endswith(_CSV_ENDINGS) else "delta" if is_table(spark, path) else "parquet"
        return kind, path
    place = Path(path).absolute()
    if not place.exists():
        raise _refused("NO_SUCH_PATH", "neither a file nor a folder", path)
    if (place / "_delta_log").is_dir():
        return "delta", str(place)
    names = [place.name] if place.is_file() else [file.name for file in place.iterdir()]
    for kind, endings in (("csv", _CSV_ENDINGS), ("parquet", (".parquet",))):
        if any(name.endswith(endings) for name in names):
            return kind, str(place)
    raise _refused("DUMP_UNKNOWN", "neither CSV, nor Parquet, nor a Delta table", path)


def _refused(condition: str, found: str, path: str) -> ConfigurationError:
    return ConfigurationError(
        condition, found=found, where=path, action="name a .csv or .parquet file, a folder of such files, or the folder of a Delta table"
    )


def _type(kind: T.DataType) -> str:
    return kind.simpleString() if isinstance(kind, _PLAIN) else "string"


def _text(field: T.StructField) -> Column:
    cell, kind = F.col(quoted(field.name)), field.dataType
    if isinstance(kind, T.BinaryType):
        return F.regexp_replace(F.base64(cell), "[\r\n]", "")
    if isinstance(kind, T.TimestampType | T.TimestampNTZType):
        text = F.regexp_replace(cell.cast("string"), " ", "T")
        return F.concat(text, F.lit("Z")) if isinstance(kind, T.TimestampType) else text
    if isinstance(kind, T.StructType | T.ArrayType | T.MapType):
        return F.to_json(cell)
    return cell.cast("string")
