"""The commands with which a pipeline begins."""

from __future__ import annotations

from typing import Annotated

import typer

from framework.cli.app import START, command
from framework.cli.options import CONFIG, Config, Debug, Env, Json, UnusedConfig, Verbose

_LIMIT = 10_000


@command(START, "demo:run", "mainstem demo --folder demo")
def demo(
    folder: Annotated[
        str | None,
        typer.Option("--folder", metavar="FOLDER", help="Where to put it, instead of a temporary folder."),
    ] = None,
    config: UnusedConfig = CONFIG,
    json: Json = False,
    verbose: Verbose = False,
    debug: Debug = False,
) -> None:
    """Run the sample feeds through all layers, and write a report."""


_Kafka = Annotated[
    str | None,
    typer.Option("--kafka", metavar="HOST:PORT", help="Read topics of this broker instead of files."),
]
_Topic = Annotated[
    list[str] | None,
    typer.Option(
        "--topic", metavar="NAME", help="With --kafka: a topic, or several with * and ?; repeatable."
    ),
]
_KafkaOption = Annotated[
    list[str] | None,
    typer.Option(
        "--kafka-option",
        metavar="KEY=VALUE",
        help="With --kafka: another key of `kafka:`, such as kafka.security.protocol=SASL_SSL; secrets as"
        " '${env:NAME}'; repeatable.",
    ),
]


@command(
    START,
    "detect:run",
    "mainstem detect ./landing/orders",
    "mainstem detect --kafka localhost:9092 --topic 'shop.*'",
)
def detect(
    path: Annotated[
        str | None,
        typer.Argument(
            metavar="PATH",
            help="A file, or a folder with files: a message a line, or as `kcat -J` prints them.",
        ),
    ] = None,
    kafka: _Kafka = None,
    topic: _Topic = None,
    kafka_option: _KafkaOption = None,
    config: UnusedConfig = CONFIG,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Name the format of messages, with the evidence and the tables in them."""


@command(
    START,
    "init:run",
    "mainstem init --from ./landing",
    "mainstem init --kafka localhost:9092 --topic 'shop.*'",
)
def init(
    origin: Annotated[
        str | None,
        typer.Option("--from", metavar="PATH", help="Name the sources that are in this file or folder."),
    ] = None,
    kafka: _Kafka = None,
    topic: _Topic = None,
    kafka_option: _KafkaOption = None,
    databricks: Annotated[
        bool,
        typer.Option(
            "--databricks",
            metavar="",
            help="Write pipelines/NAME.yml for the bundle here, from the file --config.",
        ),
    ] = False,
    config: Annotated[
        str,
        typer.Option(
            "--config",
            "-c",
            metavar="FILE",
            help="The file to write, or with --databricks the one to read; none is overwritten.",
        ),
    ] = CONFIG,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Write a commented configuration."""


@command(START, "validate:run", "mainstem validate", "mainstem validate --schema > mainstem.schema.json")
def validate(
    schema: Annotated[
        bool,
        typer.Option("--schema", metavar="", help="Print the JSON schema of the configuration."),
    ] = False,
    without_folders: Annotated[
        bool,
        typer.Option(
            "--without-folders", metavar="", help="Check the file alone; landing folders may be missing."
        ),
    ] = False,
    config: Config = CONFIG,
    env: Env = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Check the configuration, and that its landing folders are there."""


@command(START, "doctor:run", "mainstem doctor", "mainstem doctor --databricks")
def doctor(
    databricks: Annotated[
        bool,
        typer.Option(
            "--databricks",
            metavar="",
            help="List the rights that the pipeline needs; in a workspace, try them.",
        ),
    ] = False,
    live: Annotated[
        bool,
        typer.Option("--live", metavar="", help="Also try what only a workspace can show."),
    ] = False,
    config: Config = CONFIG,
    env: Env = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Check this machine: Java, jars, memory, disk, rights."""


@command(
    START,
    "reference.formats:run",
    "mainstem formats",
    "mainstem formats --sample debezium",
    "mainstem formats --events orders.jsonl --format canal",
)
def formats(
    sample: Annotated[
        str | None, typer.Option("--sample", metavar="NAME", help="Print a sample feed of one format.")
    ] = None,
    markdown: Annotated[
        bool, typer.Option("--markdown", metavar="", help="Print the table as Markdown.")
    ] = False,
    into: Annotated[
        str | None,
        typer.Option(
            "--into", metavar="FILE", help="Write the Markdown table between the markers in a file."
        ),
    ] = None,
    events: Annotated[
        str | None,
        typer.Option(
            "--events",
            metavar="PATH",
            help="Print the events of the messages in a file or folder, as for `detect`.",
        ),
    ] = None,
    format: Annotated[
        str | None,
        typer.Option(
            "--format",
            metavar="NAME",
            help="With --events: the format; without it that of --source, or the detected one.",
        ),
    ] = None,
    key: Annotated[
        list[str] | None,
        typer.Option(
            "--key", metavar="COLUMN", help="With --events: a key column of all tables; repeatable."
        ),
    ] = None,
    source: Annotated[
        str | None,
        typer.Option(
            "--source",
            metavar="NAME",
            help="With --events: the source of the configuration with all settings.",
        ),
    ] = None,
    limit: Annotated[
        int, typer.Option("--limit", metavar="N", help="With --events: decode at most so many messages.")
    ] = _LIMIT,
    config: Config = CONFIG,
    env: Env = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """List the formats, print a sample of one, or show what a decoder reads."""
