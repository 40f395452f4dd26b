"""The extras of the installation that observe runs: when they are asked for, and what is said without them.

This module imports none of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from framework.errors import MainstemError

Environment = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Extra:
    """An extra that observes runs.

    Attributes:
        module: The module of its observer, with a function `open_observer(run, environ)`.
        is_asked_for: Whether the environment configures a receiver.
        missing: The warning where it is not installed.
        unsent: The warning where it could not send something; the reason is added to what was found.
    """

    module: str
    is_asked_for: Callable[[Environment], bool]
    missing: Callable[[], MainstemError]
    unsent: Callable[[Environment], MainstemError]


def traces_endpoint(environ: Environment) -> str:
    """The configured endpoint for traces, as the specification of OpenTelemetry names it; empty for none."""
    names = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
    return next((environ[name] for name in names if environ.get(name)), "")


def _wants_traces(environ: Environment) -> bool:
    """An endpoint is set, and nothing is switched off."""
    is_off = environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true"
    exporters = {name.strip() for name in environ.get("OTEL_TRACES_EXPORTER", "").split(",")} - {""}
    return bool(traces_endpoint(environ)) and not is_off and (not exporters or "otlp" in exporters)


def _no_opentelemetry() -> MainstemError:
    return MainstemError(
        "OPENTELEMETRY_MISSING",
        found="an endpoint for traces is configured, and OpenTelemetry is not installed",
        where="OTEL_EXPORTER_OTLP_ENDPOINT",
        action="install Mainstem's extra `otel`, for instance `pip install 'opentelemetry-sdk>=1.30,<2' "
        "'opentelemetry-exporter-otlp-proto-http>=1.30,<2'` beside it, or set OTEL_SDK_DISABLED=true",
    )


def _unsent_traces(environ: Environment) -> MainstemError:
    return MainstemError(
        "TRACES_NOT_SENT",
        found=f"the trace of this run did not reach the collector{_at_host(traces_endpoint(environ))}",
        where="OTEL_EXPORTER_OTLP_ENDPOINT",
        action="check that the collector runs and takes OTLP over HTTP there; the run itself is not affected",
    )


def _at_host(address: str) -> str:
    """The part of an address that is no secret."""
    try:
        host = urlsplit(address).hostname
    except ValueError:
        return ""
    return f" at {host}" if host else ""


def _wants_lineage(environ: Environment) -> bool:
    """Whether the library would find a receiver: in the environment, or in a file of its own."""
    if environ.get("OPENLINEAGE_DISABLED", "").strip().lower() == "true":
        return False
    if environ.get("OPENLINEAGE_URL") or any(name.startswith("OPENLINEAGE__TRANSPORT__") for name in environ):
        return True
    home = Path("~/.openlineage/openlineage.yml").expanduser()
    files = (environ.get("OPENLINEAGE_CONFIG"), "openlineage.yml", home)
    return any(file and Path(file).is_file() for file in files)


def _no_openlineage() -> MainstemError:
    return MainstemError(
        "OPENLINEAGE_MISSING",
        found="a receiver for lineage is configured, and OpenLineage is not installed",
        where="OPENLINEAGE_URL",
        action="install Mainstem's extra `lineage`, for instance `pip install 'openlineage-python>=1.30,<2'` "
        "beside it, or set OPENLINEAGE_DISABLED=true",
    )


def _unsent_lineage(environ: Environment) -> MainstemError:
    host = _at_host(environ.get("OPENLINEAGE_URL", ""))
    return MainstemError(
        "LINEAGE_NOT_SENT",
        found=f"the lineage of this run did not reach its receiver{host}",
        where="OPENLINEAGE_URL, or the file openlineage.yml",
        action="check that the receiver runs and takes events of OpenLineage; the run itself is not affected",
    )


EXTRAS = (
    Extra("framework.observability.traces", _wants_traces, _no_opentelemetry, _unsent_traces),
    Extra("framework.observability.lineage", _wants_lineage, _no_openlineage, _unsent_lineage),
)
