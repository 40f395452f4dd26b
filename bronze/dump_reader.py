"""Reads table dumps: every cell as canonical text, with the type that the dump itself declares."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from framework.errors import ConfigurationError, MainstemError
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
    empty text. A cell of an object store that is not UTF-8 fails when it is read: files of this
    machine are checked before (`dump_limits`).

    Raises:
        ConfigurationError: NO_SUCH_PATH, or DUMP_UNKNOWN where the path holds none of these.
        MainstemError: DUMP_UNREADABLE, where the names of the columns are not UTF-8.
    """
    kind, place = _kind(spark, path)
    if kind == "csv":
        rows = (
            _strict_csv(spark, path) if "://" in path else spark.read.options(**_CSV).csv(without_glob(place))
        )
        rows = rows.toDF(*(name.removeprefix("\ufeff") for name in rows.columns))
        return Dump(rows, dict.fromkeys(rows.columns))
    rows = spark.read.format(kind).load(place if kind == "delta" else without_glob(place))
    types: dict[str, str | None] = {field.name: _type(field.dataType) for field in rows.schema.fields}
    return Dump(rows.select(*(_text(field).alias(field.name) for field in rows.schema.fields)), types)


def _strict_csv(spark: SparkSession, path: str) -> DataFrame:
    """The rows of a CSV file, of which each cell must be UTF-8.

    Spark's reader puts U+FFFD in the place of other bytes, which a cell of the source may have as well. So it
    reads each byte as a character; what separates cells and rows is the same, and the cells are decoded then.
    """
    rows = spark.read.options(**_CSV, encoding="ISO-8859-1").csv(without_glob(path))
    try:
        names = [name.encode("latin-1").decode() for name in rows.columns]
    except UnicodeError:
        raise not_utf8("line 1", path) from None
    cells = (F.validate_utf8(F.encode(F.col(quoted(n)), "ISO-8859-1").cast("string")) for n in rows.columns)
    return rows.select(*(cell.alias(name) for cell, name in zip(cells, names, strict=True)))


def not_utf8(what: str, place: str) -> MainstemError:
    """The error of a CSV file that has another encoding."""
    return MainstemError(
        "DUMP_UNREADABLE",
        found=f"{what} is not UTF-8",
        where=place,
        action="export the table again as UTF-8, or convert the file; nothing has landed",
    )


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
