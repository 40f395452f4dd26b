"""`mainstem init`: writes a commented configuration."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from framework.cli.commands.detect import TopicMessages, detect_formats, topics_of
from framework.cli.options import Options
from framework.cli.terminal import say, say_json
from framework.config.drafting.bundle_text import BundleText, bundle_text
from framework.config.drafting.template import (
    Draft,
    DraftSource,
    doubt_lines,
    draft_configuration,
    draft_text,
    source_around,
)
from framework.config.drafting.topic_template import draft_of_topics
from framework.config.json_schema import SCHEMA_FILE, SCHEMA_ID, json_schema
from framework.config.model import load_config
from framework.errors import ConfigurationError
from framework.pipeline.session import option_models
from framework.text.formatting import quantity


def run(options: Options) -> int:
    """Write a commented configuration with the sources of a path or of topics, and print what to do next."""
    file = Path(options.config)
    place = topics_of(options)
    if place is not None and options.origin:
        raise _wrong(
            "--from beside --kafka", "leave out one of the two: a draft is made of files or of topics"
        )
    if options.databricks:
        if place is not None or options.origin:
            raise _wrong(
                "--databricks beside --from or --kafka", "draft a configuration first, then give it with -c"
            )
        return _for_bundle(file, is_json=options.json)
    if place is not None:
        draft = draft_of_topics(place, TopicMessages(place, is_json=options.json).detect)
    else:
        draft = draft_configuration(Path(options.origin), detect_formats) if options.origin else Draft()
    around = source_around(file, draft)
    if around is not None:
        raise _wrong(
            f"the configuration in the folder that it reads: {around.folder}",
            "name the folder of the messages alone with --from, or a file elsewhere with -c ../mainstem.yml",
        )
    text = draft_text(file, draft)
    with _writing(file, exists="name another one with -c: nothing is overwritten"):
        with file.open("x", encoding="utf-8") as target:
            target.write(text)
        schema = write_schema(file.parent)
    if options.json:
        say_json({**_document(file, draft), "schema": str(schema) if schema else None})
    else:
        say((*_lines(file, draft), _schema_line(file.parent, schema), _next_line(draft)))
    return 0


def _wrong(found: str, action: str) -> ConfigurationError:
    return ConfigurationError("WRONG_ARGUMENTS", found=found, where="mainstem init", action=action)


def _for_bundle(file: Path, *, is_json: bool) -> int:
    """Write a configuration of the Databricks bundle in this folder, from one that works on this machine."""
    config = load_config(file, formats=option_models())
    if not Path("databricks.yml").is_file():
        raise ConfigurationError(
            "NO_BUNDLE",
            found="no file databricks.yml",
            where=str(Path.cwd()),
            action="go to the folder of a clone of Mainstem, and name the configuration with -c",
        )
    made = bundle_text(file, os.environ)
    target = Path("pipelines") / f"{config.pipeline}.yml"
    with _writing(target, exists="remove it, or rename the pipeline: nothing is overwritten"):
        target.parent.mkdir(exist_ok=True)
        with target.open("x", encoding="utf-8") as written:
            written.write(made.text)
    if is_json:
        say_json({"config": str(target), "pipeline": config.pipeline, "landed": dict(made.landed)})
    else:
        say(_bundle_lines(target, config.pipeline, made))
    return 0


def _bundle_lines(target: Path, pipeline: str, made: BundleText) -> Iterator[str]:
    yield f"{target}: written"
    for source, folder in made.landed.items():
        yield f"  {source}: reads the folder {source} of the bundle's volume `landing`; copy {folder} there"
    yield (
        f'next: write {{"pipeline": "{pipeline}", "catalog": …, "warehouse_id": …}} into '
        ".databricks/bundle/dev/variable-overrides.json, then `databricks bundle deploy`"
    )


@contextlib.contextmanager
def _writing(file: Path, *, exists: str) -> Iterator[None]:
    """Raise ConfigurationError where a new file cannot be written. `exists` is the advice if there is one."""
    try:
        yield
    except FileExistsError:
        raise ConfigurationError(
            "CONFIG_EXISTS",
            found="a file",
            where=str(file),
            action=exists,
        ) from None
    except OSError as error:
        raise ConfigurationError(
            "CONFIG_NOT_WRITABLE",
            found=error.strerror or str(error),
            where=str(file),
            action="name a file in a folder that you may write to"
            if isinstance(error, PermissionError)
            else "make the folder first, or name a file in one that is there",
        ) from None


def write_schema(folder: Path) -> Path | None:
    """Write the JSON schema of the configuration into a folder, over an older one; returns the file.

    None where a file of this name holds something else, which stays. Raises OSError.
    """
    file = folder / SCHEMA_FILE
    if os.path.lexists(file) and not _is_schema(file):
        return None
    file.write_text(json.dumps(json_schema(option_models()), indent=1) + "\n", encoding="utf-8")
    return file


def _is_schema(file: Path) -> bool:
    """Whether a file holds the schema of some release of Mainstem."""
    try:
        found = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else None
    except ValueError:
        return False
    return isinstance(found, dict) and found.get("$id") == SCHEMA_ID


def _schema_line(folder: Path, schema: Path | None) -> str:
    if schema is None:
        return f"  {folder / SCHEMA_FILE} is another file: it stays, and editors complete nothing"
    return f"  {schema}: the schema with which editors complete and check the configuration"


def _document(file: Path, draft: Draft) -> dict[str, Any]:
    found = [
        {"name": s.name, "format": s.format, "or": s.answer["formats"][0]["or"], **_place_of(s)}
        for s in draft.sources
    ]
    return {
        "config": str(file),
        "sources": found,
        "append_only": list(draft.keyless),
        "candidates": {name: table["candidates"] for name, table in draft.keyless.items()},
        "left_out": [{"folder": str(left.folder), "why": left.why} for left in draft.left_out],
        "shared": draft.shared,
    }


def _place_of(source: DraftSource) -> dict[str, Any]:
    return {"files": str(source.folder)} if source.kafka is None else {"kafka": dict(source.kafka)}


def _lines(file: Path, draft: Draft) -> Iterator[str]:
    sources = draft.sources
    yield f"{file}: written" + (f", with {quantity(len(sources), 'source')}" if len(sources) > 1 else "")
    for source in sources:
        found = source.answer["formats"][0]
        names = " or ".join((source.format, *found["or"]))
        sizes = f"{quantity(found['messages'], 'message')} of {quantity(len(found['tables']), 'table')}"
        more = "at least " if source.answer["is_sample"] else ""
        yield f"  {source.name}: {source.place} holds {names}, {more}{sizes}"
    yield from (f"  {line}" for line in doubt_lines(draft))
    keyless = list(draft.keyless)
    if keyless:
        names = f"{', '.join(keyless[:10])}{' …' if len(keyless) > 10 else ''}"
        yield f"  no key in the feed: {names}: choose `keys` in the file, which has what the sample shows"


def _next_line(draft: Draft) -> str:
    return (
        "next: read it, then `mainstem plan` and `mainstem run`"
        if draft.sources
        else "next: write your sources, then `mainstem validate`"
    )
