"""Checks the analysed plan of a query node by node: operators, relations and functions, each from a list.

The check of the text (`guard`) does not know what a name stands for: a session that others use too has its
own temporary views, tables and functions. Here every name is resolved. Relations are the tables that were
opened for the query and those of the pipeline's catalog, functions are Spark's own.

Spark Connect shows a plan only as text, a line for each node. Values and names in it may contain line breaks,
and so add lines that look like nodes, but none can hide a line. So each line that may be a node is checked,
and a query with such a value may be refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import DataFrame

from framework.spark.session import is_connect
from framework.sql.guard import Refused

_OPERATOR_LIST = """
    Aggregate AsOfJoin CTERelationDef CTERelationRef Deduplicate Distinct EmptyRelation Except Expand Filter
    Generate GlobalLimit Intersect Join LateralJoin LocalLimit LocalRelation Offset OneRowRelation Pivot
    Project Range RebalancePartitions Repartition RepartitionByExpression ResolvedHint Sample Sort
    SubqueryAlias Tail Transpose Union UnionLoop UnionLoopRef Unpivot Window WithCTE WithWindowDefinition
"""
OPERATORS = frozenset(_OPERATOR_LIST.split())
"""Spark's names of the nodes of a plan that read nothing and run no program."""

_OF_SPARK = ("org.apache.spark.sql.catalyst.", "com.databricks.")
_FOREIGN_CODE = re.compile(
    r"UDF$|UDAF$|UDTF$|UserDefined|CallMethodViaReflection|TryReflect|ApplyFunction|V2Aggregator|Hive"
)

# A node of a plan as text: the lines of the tree, a mark of its state, and the node's name.
_NODE = re.compile(r"(?:[:|]? +)*(?:[:+]- )?['!~*]*([A-Z]\w*)(?:$|[ (\[,])(.*)")
_VIEW = re.compile(r"\(?(`(?:[^`]|``)*`(?:\.`(?:[^`]|``)*`)*)")
_ANALYSED, _OPTIMISED = "== Analyzed Logical Plan ==", "== Optimized Logical Plan =="


@dataclass(frozen=True, slots=True)
class Readable:
    """What a query may read.

    Attributes:
        views: Names of temporary views of this query.
        tables: Names of tables, their parts joined by dots, the catalog's first.
    """

    views: set[str] = field(default_factory=set)
    tables: set[str] = field(default_factory=set)


def check_plan(frame: DataFrame, readable: Readable) -> None:
    """Raises Refused where the plan has a relation, an operator or a function that is not on its list."""
    if is_connect(frame.sparkSession):
        connect: Any = frame
        check_plan_text(connect._explain_string(extended=True), readable)
    else:
        _check_nodes(frame._jdf.queryExecution().analyzed(), readable)


def _check_nodes(plan: Any, readable: Readable) -> None:
    waiting = [plan]
    while waiting:
        node = waiting.pop()
        name = str(node.nodeName())
        if name == "View":
            _check_view(_identifier(node.desc()), bool(node.isTempView()), readable)
            continue  # what is below a view of this query is ours
        if name == "LogicalRelation":
            table = node.catalogTable()
            _check_table(_identifier(table.get()) if table.isDefined() else "", readable)
        elif name not in OPERATORS:
            raise Refused(_operator(name))
        for expression in _elements(node.expressions()):
            _check_expressions(expression)
        waiting += [*_elements(node.children()), *_elements(node.innerChildren())]


def _check_expressions(root: Any) -> None:
    waiting = [root]
    while waiting:
        expression = waiting.pop()
        name = str(expression.getClass().getName())
        if not name.startswith(_OF_SPARK) or _FOREIGN_CODE.search(name):
            raise Refused(f"the function {expression.prettyName()}, which is not Spark's own")
        waiting += _elements(expression.children())


def check_plan_text(text: str, readable: Readable) -> None:
    """`check_plan` for the text of an extended explanation; Refused also where it lacks the analysed plan."""
    _, is_there, rest = text.partition(_ANALYSED)
    analysed, is_whole, _ = rest.rpartition(_OPTIMISED)
    if not is_there or not is_whole:
        raise Refused("a query whose plan cannot be checked on this platform")
    for line in analysed.splitlines()[2:]:  # the rest of the heading, and the line of the columns
        node = _NODE.match(line)
        if node is None:
            continue
        name, details = node.groups()
        if name == "View":
            view = _VIEW.match(details)
            parts = re.findall(r"`((?:[^`]|``)*)`", view[1]) if view else []
            is_single = len(parts) == 1
            _check_view(
                parts[0].replace("``", "`") if is_single else ".".join(parts) or details, is_single, readable
            )
        elif name == "Relation":
            table = details.partition("[")[0].strip() if not line.rstrip().endswith("Relation") else ""
            if table:  # without a name it is the content of a view, whose line is checked
                _check_table(table, readable)
        elif name not in OPERATORS:
            raise Refused(_operator(name))


def _check_view(name: str, is_temporary: bool, readable: Readable) -> None:
    if not is_temporary or name not in readable.views:
        raise Refused(f"the view {name}, which is not the pipeline's")


def _check_table(name: str, readable: Readable) -> None:
    if name.casefold() not in {table.casefold() for table in readable.tables}:
        raise Refused(f"the table {name or 'of a file'}, which is not the pipeline's")


def _operator(name: str) -> str:
    if name == "ScriptTransformation":
        return "a query that runs a program"
    return f"{name}, which is not known to read only the pipeline's tables"


def _identifier(table: Any) -> str:
    return str(table.identifier().unquotedString())


def _elements(found: Any) -> Iterator[Any]:
    iterator = found.iterator()
    while iterator.hasNext():
        yield iterator.next()
