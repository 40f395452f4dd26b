"""Databricks secrets: the only place that asks for one, and it never says what it was."""

from __future__ import annotations


class SecretUnavailableError(Exception):
    """There is no such secret to be had here; the text says why, without the secret."""


def read_secret(scope: str, key: str) -> str:
    """The secret, by Databricks' own library: each of its runtimes has it, elsewhere it finds a workspace by its environment."""
    try:
        from databricks.sdk import WorkspaceClient
    except ImportError:
        raise SecretUnavailableError("this machine has no Databricks secrets: the package databricks-sdk is not installed") from None
    try:
        value = WorkspaceClient().dbutils.secrets.get(scope, key)
    except Exception as error:  # its own classes differ from runtime to runtime, and their texts may hold what was answered
        raise SecretUnavailableError(f"Databricks did not give it ({type(error).__name__})") from None
    if not isinstance(value, str):
        raise SecretUnavailableError("Databricks answered with something that is no text")
    return value
