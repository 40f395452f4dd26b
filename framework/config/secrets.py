"""Databricks secrets: the only place that reads one, and it never shows it."""

from __future__ import annotations


class SecretUnavailableError(Exception):
    """The secret is not available here; the text says why, without the secret."""


def read_secret(scope: str, key: str) -> str:
    """The secret, read with Databricks' own library.

    Each of its runtimes has the library; elsewhere it finds a workspace by the environment.
    """
    try:
        from databricks.sdk import WorkspaceClient
    except ImportError:
        raise SecretUnavailableError(
            "this machine has no Databricks secrets: the package databricks-sdk is not installed"
        ) from None
    try:
        value = WorkspaceClient().dbutils.secrets.get(scope, key)
    except Exception as error:
        # the library's classes differ from runtime to runtime, and their texts may hold the answer
        raise SecretUnavailableError(f"Databricks did not give it ({type(error).__name__})") from None
    if not isinstance(value, str):
        raise SecretUnavailableError("Databricks answered with something that is no text")
    return value
