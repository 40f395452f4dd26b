"""Reads table dumps: every cell as canonical text, with the type that the dump itself declares."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from framework.errors import ConfigurationError
from framework.lakehouse.lakehouse import is_table
from framework.lakehouse.small_files import without_glob
from framework.naming import quoted

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
"""Types whose Spark names are canonical type names; values of all other types are text."""


@dataclass(frozen=True, slots=True)
class Dump:
    """Rows whose cells are all text, and the canonical type of each column.

    None where the file has none (CSV).
    """

    rows: DataFrame
    columns: dict[str, str | None]


def read_dump(spark: SparkSession, path: str) -> Dump:
    r"""Reads a CSV file, a Parquet file, a folder of such files or a Delta table.

    CSV is UTF-8, with the column names in the first line; an empty cell and `\N` are null, and `""` is the
    empty text.

    Raises:
        ConfigurationError: NO_SUCH_PATH, or DUMP_UNKNOWN where the path holds none of these.
    """
    kind, place = _kind(spark, path)
    if kind == "csv":
        rows = spark.read.options(**_CSV).csv(without_glob(place))
        rows = rows.toDF(*(name.removeprefix("\ufeff") for name in rows.columns))
        return Dump(rows, dict.fromkeys(rows.columns))
    rows = spark.read.format(kind).load(place if kind == "delta" else without_glob(place))
    types: dict[str, str | None] = {field.name: _type(field.dataType) for field in rows.schema.fields}
    return Dump(rows.select(*(_text(field).alias(field.name) for field in rows.schema.fields)), types)


def _kind(spark: SparkSession, path: str) -> tuple[str, str]:
    if "://" in path:
        kind = "csv" if path.endswith(_CSV_ENDINGS) else "delta" if is_table(spark, path) else "parquet"
        return kind, path
    place = Path(path).absolute()
    if not place.exists():
        raise _dump_error("NO_SUCH_PATH", "neither a file nor a folder", path)
    if (place / "_delta_log").is_dir():
        return "delta", str(place)
    names = [place.name] if place.is_file() else [file.name for file in place.iterdir()]
    for kind, endings in (("csv", _CSV_ENDINGS), ("parquet", (".parquet",))):
        if any(name.endswith(endings) for name in names):
            return kind, str(place)
    raise _dump_error("DUMP_UNKNOWN", "neither CSV, nor Parquet, nor a Delta table", path)


def _dump_error(condition: str, found: str, path: str) -> ConfigurationError:
    return ConfigurationError(
        condition,
        found=found,
        where=path,
        action="name a .csv or .parquet file, a folder of such files, or the folder of a Delta table",
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
