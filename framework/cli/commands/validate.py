"""`mainstem validate`: checks the configuration, or prints its JSON schema."""

from __future__ import annotations

from framework.cli.options import Options
from framework.cli.terminal import say_json, say_line
from framework.config.json_schema import json_schema
from framework.config.model import load_config, validated_config
from framework.errors import ConfigurationError
from framework.pipeline.session import option_models
from framework.text.formatting import quantity


def run(options: Options) -> int:
    """Check the configuration and that its landing folders exist, or print its JSON schema.

    All faults of the configuration are told. With `without_folders` the landing folders are not looked for.
    """
    if options.schema:
        say_json(json_schema(option_models()))
        return 0
    try:
        check = load_config if options.without_folders else validated_config
        config = check(options.config, formats=option_models())
    except ConfigurationError as error:
        if not options.json or options.debug:
            raise
        say_json({"valid": False, "faults": [_fault(each) for each in error.faults]})
        return error.exit_code
    if options.json:
        say_json(
            {
                "pipeline": config.pipeline,
                "sources": sorted(config.sources),
                "tables": len(config.tables),
                "valid": True,
            }
        )
    else:
        sources = quantity(len(config.sources), "source")
        entries = quantity(len(config.tables), "table entry", "table entries")
        say_line(f"{options.config}: valid ({sources}, {entries})")
    return 0


def _fault(error: ConfigurationError) -> dict[str, str]:
    return {"code": error.condition, "found": error.found, "where": error.where, "do": error.action}
