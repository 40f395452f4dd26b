"""Looks Spark's functions up in the JVM once, not once a call.

PySpark builds a column by asking the JVM for the class `functions`, then for the function, and then calls it.
Py4J remembers neither answer, and searches all jars for names that are in no imported package. A small run
builds some thousand columns. https://www.py4j.org/py4j_java_gateway.html
"""

from __future__ import annotations

from typing import Any

from py4j.java_gateway import JavaClass, JavaMember  # type: ignore[import-untyped]
from pyspark.sql import SparkSession

_CLASSES = {
    "org.apache.spark.sql.functions": ("functions", "org.apache.spark.sql.functions"),
    "org.apache.spark.api.python.PythonUtils": ("PythonUtils",),
}
"""The classes whose static methods build columns, each with the names under which PySpark asks for it."""


class _RememberedClass(JavaClass):  # type: ignore[misc]
    """A class of the JVM whose methods are looked up once."""

    def __getattr__(self, name: str) -> Any:
        member = super().__getattr__(name)
        if isinstance(member, JavaMember):
            self.__dict__[name] = member
        return member


def remember_functions(session: SparkSession) -> None:
    """Remember Spark's functions in this process. Does nothing on Spark Connect, which has no JVM here."""
    context = getattr(session, "_sc", None)
    jvm, gateway = getattr(context, "_jvm", None), getattr(context, "_gateway", None)
    if jvm is None or gateway is None:
        return
    for class_name, names in _CLASSES.items():
        if names[0] not in vars(jvm):
            remembered = _RememberedClass(class_name, gateway._gateway_client)
            for name in names:
                setattr(jvm, name, remembered)
