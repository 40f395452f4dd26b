"""The command line: `mainstem COMMAND`. Every command ends with one of four exit codes.

0 all applied · 1 failed · 2 usage or configuration · 3 ran to the end, but a table is parked or a quality check failed.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Sequence
from datetime import timedelta

try:
    from framework import commands, feeds, forecast, repair, seed_command, upkeep
    from framework.sql import command as sql_command
except ModuleNotFoundError as missing:
    if missing.name != "pyspark":
        raise
    sys.exit(
        "error: PYSPARK_MISSING\n  found: no Spark in this Python\n  where: " + sys.executable + "\n"
        "  do:    pip install 'mainstem[local]'; Databricks and clusters bring their own Spark, run it there"
    )
from framework.errors import MainstemError, cause_of
from framework.report import DEFAULT_PAGE

_Command = Callable[[argparse.Namespace], int]

_INTERVAL = re.compile(r"([0-9]{1,6})\s*(s|m|h)")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours"}
_ENDINGS = {1: "failed", 2: "usage or configuration", 3: "ran to the end, but a table is parked or a quality check failed"}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; errors are three lines, never a stack trace without `--debug`."""
    options = command_line().parse_args(arguments)
    command: _Command = options.command
    try:
        return command(options)
    except MainstemError as error:
        if options.debug:
            raise
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("error: INTERRUPTED\n  do:    run again: nothing is lost or doubled", file=sys.stderr)
        return 1
    except BrokenPipeError:
        return 1
    except Exception as error:  # a bug, or the platform: said in three lines, with the stack trace on demand
        if options.debug:
            raise
        print(f"error: {_unexpected(error)}", file=sys.stderr)
        return 1


def job(arguments: Sequence[str] | None = None) -> None:
    """Run one command as a task of a job: returns when all is applied, and raises MainstemError TASK_FAILED otherwise.

    Databricks calls this function and sees exceptions alone: an exit code would be lost, and a failed run look well.
    """
    try:
        code = main(arguments)
    except SystemExit as end:  # argparse's way to say that it has shown the help, or cannot understand
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    if code:
        raise MainstemError(
            "TASK_FAILED",
            found=f"exit code {code}: {_ENDINGS.get(code, 'failed')}",
            where=f"mainstem {' '.join(sys.argv[1:] if arguments is None else arguments)}",
            action="read what was printed before this; mend the cause and run again: nothing is lost or doubled",
        )


def _report(options: argparse.Namespace) -> int:
    from framework.report.command import report  # templates and Parquet take their time to load: only for those who need them

    return report(options)


def _demo(options: argparse.Namespace) -> int:
    from framework.demo_command import demo  # it writes a report

    return demo(options)


def _unexpected(error: Exception) -> str:
    return (
        f"{type(error).__name__.upper()}\n  found: {cause_of(error)}\n"
        "  where: not told\n  do:    run again with --debug for the whole trace; a run can always be repeated"
    )


def _interval(text: str) -> timedelta:
    found = _INTERVAL.fullmatch(text.strip())
    if found is None or int(found[1]) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is no interval: write seconds, minutes or hours, as 30s, 5m or 1h")
    return timedelta(**{_UNITS[found[2]]: int(found[1])})


def command_line() -> argparse.ArgumentParser:
    """The parser of all commands."""
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("-c", "--config", default="mainstem.yml", help="the configuration file (default ./mainstem.yml)")
    common.add_argument("--json", action="store_true", help="print the result as one JSON object")
    common.add_argument("--debug", action="store_true", help="show whole stack traces")
    common.add_argument("--verbose", action="store_true", help="log each step to standard error")
    parser = argparse.ArgumentParser(prog="mainstem", description="Change feeds to correct, typed, current Delta tables.")
    parser.add_argument("--version", action="version", version=commands.version())
    adder = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")

    run = adder.add_parser("run", parents=[common], help="land, normalize and apply everything that is waiting")
    run.add_argument("--through", choices=("bronze", "silver", "gold", "quality"), default="quality", help="the last layer to run")
    run.add_argument("--table", help="bring one table alone up to date (database.table)")
    run.add_argument(
        "--continuous", type=_interval, metavar="INTERVAL", help="go on for ever, a round every INTERVAL (30s, 5m), until SIGTERM or SIGINT"
    )
    run.set_defaults(command=commands.run)

    plan = adder.add_parser("plan", parents=[common], help="what a run would do now; writes nothing")
    plan.add_argument("--table", help="one table alone (database.table)")
    plan.set_defaults(command=forecast.plan)

    status = adder.add_parser("status", parents=[common], help="what is where: tables, counts, what waits")
    status.add_argument("--verify", action="store_true", help="check what must hold in every table; exit code 1 where something does not")
    status.set_defaults(command=commands.status)

    replay = adder.add_parser("replay", parents=[common], help="decode the messages in quarantine again, and apply what comes of it")
    replay.set_defaults(command=repair.replay)

    rebuild = adder.add_parser("rebuild", parents=[common], help="make one table anew from all its changes")
    rebuild.add_argument("table", metavar="TABLE", help="database.table or database.schema.table")
    rebuild.add_argument(
        "--from", dest="origin", choices=("silver", "bronze"), default="silver", help="decode its messages again first (bronze)"
    )
    rebuild.set_defaults(command=repair.rebuild)

    seed = adder.add_parser("seed", parents=[common], help="start a replica from a dump of its table, where the feed begins mid-way")
    seed.add_argument("table", metavar="TABLE", help="database.table or database.schema.table, as the feed names it")
    seed.add_argument(
        "--from", dest="origin", metavar="FILE", required=True, help="the dump: CSV, Parquet, a folder of such files, a Delta table"
    )
    seed.add_argument(
        "--position",
        metavar="P",
        required=True,
        help="the last position whose change the dump holds (4711, binlog.000003:1547, 16/B374D848)",
    )
    seed.add_argument("--source", metavar="NAME", help="the source that the table is of, where several could be")
    seed.set_defaults(command=seed_command.seed)

    trace = adder.add_parser("trace", parents=[common], help="how a row came to be: its changes, their fates, their messages")
    trace.add_argument("table", metavar="TABLE", help="database.table or database.schema.table")
    trace.add_argument("key", metavar="COLUMN=VALUE", nargs="+", help="the row, by the text that silver holds")
    trace.set_defaults(command=repair.trace)

    forget = adder.add_parser("forget", parents=[common], help="remove a row from all layers: a person who is to be forgotten")
    forget.add_argument("table", metavar="TABLE", help="database.table or database.schema.table")
    forget.add_argument("key", metavar="COLUMN=VALUE", nargs="+", help="the whole key of the row, by the text that silver holds")
    forget.add_argument("--follow", action="store_true", help="under the keys that the row had before and after, too")
    forget.set_defaults(command=repair.forget)

    report = adder.add_parser("report", parents=[common], help="write how the pipeline stands as one HTML page, and as JSON")
    report.add_argument("--output", metavar="FILE", help=f"the page (default: {DEFAULT_PAGE} beside the configuration)")
    report.set_defaults(command=_report)

    sql = adder.add_parser("sql", parents=[common], help="query the replicas, histories, silver and ops tables; read-only")
    sql.add_argument(
        "query", metavar="QUERY", help="one query over tables such as shop.orders, silver.changes, ops.runs; - reads it from input"
    )
    sql.add_argument("--limit", type=int, default=sql_command.DEFAULT_LIMIT, metavar="N", help="print so many rows (default %(default)s)")
    sql.set_defaults(command=sql_command.sql)

    maintain = adder.add_parser("maintain", parents=[common], help="compact tables and remove files that nothing reads any more")
    maintain.add_argument("--table", help="the replica of one table alone (database.table)")
    maintain.add_argument(
        "--days", type=int, default=upkeep.SHORTEST_DAYS, help="how long files stay that no table uses any more (default 7)"
    )
    maintain.set_defaults(command=upkeep.maintain)

    validate = adder.add_parser("validate", parents=[common], help="check the configuration, and that its landing folders are there")
    validate.add_argument("--schema", action="store_true", help="print the configuration's JSON schema")
    validate.set_defaults(command=commands.validate)

    formats = adder.add_parser("formats", parents=[common], help="the formats that Mainstem reads")
    formats.add_argument("--sample", metavar="NAME", help="print a sample feed of one format")
    formats.add_argument("--markdown", action="store_true", help="print the table as Markdown")
    formats.add_argument("--into", metavar="FILE", help="write the Markdown table between the markers in a file")
    formats.set_defaults(command=feeds.formats)

    detect = adder.add_parser("detect", parents=[common], help="name the format of a file or folder of messages")
    detect.add_argument("path", metavar="PATH", help="a file, or a folder with files; a message a line, or as `kcat -J` prints them")
    detect.set_defaults(command=feeds.detect)

    init = adder.add_parser("init", parents=[common], help="write a commented configuration")
    init.add_argument("--from", dest="origin", metavar="PATH", help="name the sources that lie in this file or folder")
    init.set_defaults(command=feeds.init)

    doctor = adder.add_parser("doctor", parents=[common], help="check this machine: Java, jars, disk, rights")
    doctor.set_defaults(command=commands.doctor)

    demo = adder.add_parser("demo", parents=[common], help="run the sample feeds through all layers")
    demo.add_argument("--folder", help="where to put it (default: a new temporary folder)")
    demo.set_defaults(command=_demo)
    return parser


if __name__ == "__main__":
    sys.exit(main())
