"""`mainstem dbt-sources`: the replicas and histories of a pipeline as sources of a dbt project."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from framework.cli.commands.exports.own_file import write_own_file
from framework.cli.options import Options
from framework.cli.terminal import say_json, say_text
from framework.config.value_types import parse_duration
from framework.errors import ConfigurationError
from framework.exports.dbt_sources import MARK, Replica, dbt_document, dbt_text
from framework.naming import present_parts
from framework.pipeline.session import open_tables, read_config
from framework.pipeline.status import read_status


def run(options: Options) -> int:
    """Print the sources as YAML, or write them into a file."""
    config = read_config(options.config)
    default = _age(options.error_after)
    with open_tables(config) as view:
        tables = read_status(view).get("tables", ())
    replicas = [
        Replica(
            parts=present_parts(t["database"], t["schema"], t["table"]),
            source=t["source"],
            replica=t["replica"],
            history=t["history"],
            keys=tuple(t["keys"]),
            max_age=config.quality.freshness_of(t["source"]) or default,
        )
        for t in tables
        if t["replica"] is not None and t["state"] != "dropped"
    ]
    document = dbt_document(config.pipeline, replicas)
    if options.file:
        write_own_file(Path(options.file).expanduser(), dbt_text(document), MARK)
    if options.json:
        say_json({"dbt": document, "file": options.file})
    elif not options.file:
        say_text(dbt_text(document))
    return 0


def _age(text: str) -> timedelta:
    """A time such as `1 day`. Raises ConfigurationError WRONG_ARGUMENTS for another text."""
    try:
        return parse_duration(text)
    except ValueError as error:
        raise ConfigurationError(
            "WRONG_ARGUMENTS", found=repr(text), where="--error-after", action=str(error)
        ) from None
