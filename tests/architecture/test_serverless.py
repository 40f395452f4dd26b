"""No code calls what serverless compute forbids. What batches call in other processes is found here alone."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from tests.architecture.test_structure import modules, relative

FORBIDDEN = {
    "sparkContext": "there is no SparkContext",
    "rdd": "there are no RDDs",
    "_jvm": "there is no JVM in this process",
    "_jsc": "there is no JVM in this process",
    "_jdf": "there is no JVM in this process",
    "_jsparkSession": "there is no JVM in this process",
    "cache": "frames cannot be cached",
    "persist": "frames cannot be cached",
    "localCheckpoint": "frames cannot be cached",
    "cacheTable": "tables cannot be cached",
    "createGlobalTempView": "there are no global temporary views",
    "createOrReplaceGlobalTempView": "there are no global temporary views",
    "newSession": "Spark Connect has none",
    "toPandas": "a result may have 1 GB",
    "foreachPartition": "there are no RDDs",
    "accumulator": "there is no SparkContext",
}


def uses(source: str) -> Iterator[tuple[int, str]]:
    """The lines and names of attributes that serverless compute does not have.

    A function that asks `is_connect` may use them: on serverless compute all sessions are of Spark Connect.
    """
    if not any(name in source for name in FORBIDDEN):
        return
    tree = ast.parse(source)
    guarded = {
        id(node)
        for function in ast.walk(tree)
        if isinstance(function, ast.FunctionDef) and _asks_for_connect(function)
        for node in ast.walk(function)
    }
    for node in ast.walk(tree):
        if not isinstance(node, ast.Attribute) or node.attr not in FORBIDDEN:
            continue
        if not _is_functools(node) and id(node) not in guarded:
            yield node.lineno, node.attr


def _asks_for_connect(function: ast.FunctionDef) -> bool:
    return any(isinstance(node, ast.Name) and node.id == "is_connect" for node in ast.walk(function))


def _is_functools(node: ast.Attribute) -> bool:
    return isinstance(node.value, ast.Name) and node.value.id == "functools"


def test_no_code_calls_what_serverless_compute_forbids() -> None:
    found = {
        (relative(path), name): f"line {line}: {FORBIDDEN[name]}"
        for path in modules()
        for line, name in uses(path.read_text(encoding="utf-8"))
    }
    assert found == {}


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("frame.cache()", [(1, "cache")]),
        ("x = 1\nspark.sparkContext.setLogLevel('ERROR')", [(2, "sparkContext")]),
        ("frame.select('a').persist(level)", [(1, "persist")]),
        ("@functools.cache\ndef f(): ...", []),
        ("frame.collect()", []),
        ("def f(spark):\n    if not is_connect(spark):\n        spark.sparkContext", []),
    ],
)
def test_a_forbidden_call_is_found(source: str, found: list[tuple[int, str]]) -> None:
    assert list(uses(source)) == found
