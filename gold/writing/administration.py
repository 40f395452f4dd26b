"""What an administrator has set on a table of gold, and a rebuild keeps: it replaces the table."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pyspark.sql import SparkSession

from framework.lakehouse.lakehouse import is_path, is_table, read_table, sql_name
from framework.lakehouse.policies import Policy, policies_of
from framework.naming import quoted

OWN_PURPOSES = ("A replica kept by Mainstem", "A history kept by Mainstem")
"""How the last line of the comments of tables begins that no administrator wrote."""
SOURCE_TYPE = "source type: "
"""How the last line of the comments of columns begins that no administrator wrote."""
STATISTICS = "delta.dataSkippingStatsColumns"

_NAME = re.compile(r"`(?:[^`]|``)+`|[^,`]+")
_KEPT = frozenset(
    f"delta.{name}"
    for name in (
        "autoOptimize.autoCompact",
        "autoOptimize.optimizeWrite",
        "checkpoint.writeStatsAsJson",
        "checkpoint.writeStatsAsStruct",
        "checkpointInterval",
        "checkpointPolicy",
        "deletedFileRetentionDuration",
        "enableDeletionVectors",
        "enableRowTracking",
        "isolationLevel",
        "logRetentionDuration",
        "parquet.compression.codec",
        "randomizeFilePrefixes",
        "setTransactionRetentionDuration",
        "targetFileSize",
        "tuneFileSizesForRewrites",
    )
)
"""The properties of Delta that nothing in gold depends on. Others belong to the table that is replaced."""


@dataclass(frozen=True, slots=True)
class Administration:
    """What was set on a table.

    Attributes:
        exists: Whether there is a table.
        has_mapping: Whether its columns are mapped by name.
        comment: The table's comment, null where gold wrote it or there is none.
        column_comments: By column, without those that gold wrote.
        properties: The properties to keep.
        statistics: The columns for which Delta collects minima and maxima.
        clustering: The columns of liquid clustering.
        policies: Row filter, column masks and tags.
    """

    exists: bool = False
    has_mapping: bool = False
    comment: str | None = None
    column_comments: Mapping[str, str] = field(default_factory=dict)
    properties: Mapping[str, str] = field(default_factory=dict)
    statistics: Sequence[str] = ()
    clustering: Sequence[str] = ()
    policies: Sequence[Policy] = ()


def administration_of(spark: SparkSession, path: str) -> Administration:
    """What is set on the table at `path` now; nothing where there is no table."""
    if not is_table(spark, path):
        return Administration()
    detail = spark.sql(f"DESCRIBE DETAIL {sql_name(path)}").first()
    assert detail is not None
    own = dict(detail["properties"] or {})
    comment = detail["description"]
    texts = {
        column.name: str((column.metadata or {}).get("comment", ""))
        for column in read_table(spark, path).schema
    }
    return Administration(
        exists=True,
        has_mapping="delta.columnMapping.mode" in own,
        comment=comment if comment and not is_own(comment, OWN_PURPOSES) else None,
        column_comments={
            name: text for name, text in texts.items() if text and not is_own(text, (SOURCE_TYPE,))
        },
        properties={key: value for key, value in own.items() if _is_kept(key)},
        statistics=_names(own.get(STATISTICS, "")),
        clustering=tuple(name for text in detail["clusteringColumns"] or () for name in _names(text)),
        policies=_policies(spark, path),
    )


def is_own(comment: str, beginnings: tuple[str, ...]) -> bool:
    """Whether gold wrote a comment: its last line begins in one of these ways."""
    return comment.startswith(beginnings) or any(f"\n{beginning}" in comment for beginning in beginnings)


def set_again(spark: SparkSession, path: str, kept: Administration, columns: Sequence[str]) -> None:
    """Set on a table that has been replaced what cannot be part of its replacement.

    That is the clustering and each policy that is gone, as far as their columns are still there.
    """
    clustering = [name for name in kept.clustering if name in columns]
    if clustering:
        names = ", ".join(map(quoted, clustering))
        spark.sql(f"ALTER TABLE {sql_name(path)} CLUSTER BY ({names})")
    if kept.policies:
        present = set(_policies(spark, path))
        known = {name.lower() for name in columns}
        for policy in kept.policies:
            if policy not in present and (policy.column is None or policy.column.lower() in known):
                spark.sql(policy.statement)


def _is_kept(key: str) -> bool:
    return key in _KEPT if key.startswith("delta.") else key != "clusteringColumns"


def _names(text: str) -> tuple[str, ...]:
    """The names of a list with commas; those in backticks without them."""
    return tuple(
        name[1:-1].replace("``", "`") if name.startswith("`") else name.strip()
        for name in _NAME.findall(text)
    )


def _policies(spark: SparkSession, path: str) -> tuple[Policy, ...]:
    """The policies of a table; a catalog outside Databricks has none."""
    if is_path(path) or "DATABRICKS_RUNTIME_VERSION" not in os.environ:
        return ()
    return tuple(policies_of(spark, path))
