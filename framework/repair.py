"""The commands of the night: replay what was refused, rebuild a table, trace a row, forget one."""

from __future__ import annotations

import argparse
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from framework.commands import opened, print_json, read_config, report_run
from framework.errors import ConfigurationError
from framework.layer import Layer, LayerReport, Run, installed_layers
from framework.runs import append_run

_WIDEST = 2_000


def replay(options: argparse.Namespace) -> int:
    """Decode the messages in quarantine again, after a fix or another configuration, and apply what comes of it."""
    return _work(options, lambda layer, run: layer.replay(run) if layer.replay else None)


def rebuild(options: argparse.Namespace) -> int:
    """Make one table anew from all its changes in silver, in one commit; with `--from bronze` its messages are decoded again first."""

    def work(layer: Layer, run: Run) -> LayerReport | None:
        if layer.decode_again and options.origin == "bronze":
            return layer.decode_again(run, options.table)
        return layer.rebuild(run, options.table) if layer.rebuild else None

    return _work(options, work)


def trace(options: argparse.Namespace) -> int:
    """How a row came to be; exit code 1 when nothing is known of it."""
    config = read_config(options)
    key = _key(options.key)
    with opened(config, is_exclusive=False) as (lake, spark):
        run = Run(spark, lake, config, "trace")
        found: dict[str, Any] = {}
        for layer in installed_layers():
            if layer.trace:
                found.update(layer.trace(run, options.table, key))
    if options.json:
        print_json(found)
    else:
        print("\n".join(_told(found)))
    return 0 if found.get("changes") else 1


def forget(options: argparse.Namespace) -> int:
    """Remove a row from replica, history, silver, quarantine and bronze, and say what is left to do."""
    config = read_config(options)
    key = _key(options.key)
    with opened(config, is_exclusive=True) as (lake, spark):
        run = Run(spark, lake, config, uuid.uuid4().hex[:12])
        layers = {layer.name: layer for layer in installed_layers()}
        find = next(layer.find for layer in layers.values() if layer.find is not None)
        erasure = find(run, options.table, key, options.follow)
        # silver last: there it is found again if this is cut short
        gone = {name: dict(erase(run, erasure)) for name in ("bronze", "gold", "silver") if (erase := layers[name].erase) is not None}
    found: dict[str, Any] = {"table": options.table, "keys": [dict(each) for each in erasure.keys], "forgotten": gone}
    if options.json:
        print_json(found)
    else:
        print("\n".join(_farewell(found)))
    return 0


def _farewell(found: Mapping[str, Any]) -> list[str]:
    keys = ", ".join(" ".join(f"{name}={value}" for name, value in key.items()) for key in found["keys"])
    counts = {name: count for layer in found["forgotten"].values() for name, count in layer.items()}
    suspects = counts.pop("quarantined_suspects", 0)
    lines = [f"{found['table']}  {keys}: forgotten", "  " + ", ".join(f"{n:,} {name.replace('_', ' ')}" for name, n in counts.items())]
    if suspects:
        lines.append(f"  {suspects:,} messages in quarantine hold one of the values: nobody could read whose they are, look at them")
    lines.append("  older versions of the tables hold the values until `mainstem maintain` removes their files")
    lines.append("  what the source still sends, and files in landing folders, are yours to remove")
    return lines


def _work(options: argparse.Namespace, work: Callable[[Layer, Run], LayerReport | None]) -> int:
    config = read_config(options)
    started = time.monotonic()
    with opened(config, is_exclusive=True) as (lake, spark):
        run = Run(spark, lake, config, uuid.uuid4().hex[:12])
        reports = [report for layer in installed_layers() if (report := work(layer, run)) is not None]
        seconds = time.monotonic() - started
        append_run(spark, lake, run.run_id, reports, seconds)
    return report_run(reports, seconds, is_json=options.json)


def _key(texts: Sequence[str]) -> dict[str, str]:
    pairs = [text.partition("=") for text in texts]
    for name, sign, _ in pairs:
        if not sign or not name:
            raise ConfigurationError(
                "BAD_KEY", found=f"{name!r}", where="COLUMN=VALUE", action="write the row as id=17, several columns apart"
            )
    return {name: value for name, _, value in pairs}


def _told(found: Mapping[str, Any]) -> list[str]:
    where = " ".join(f"{name}={value}" for name, value in found["key"].items())
    row = found["row"]
    lines = [f"{found['table']}  {where}", "  row      " + ("none" if row is None else _shown(row))]
    for change in found["changes"]:
        moment = change["event_time"].isoformat() if change["event_time"] else "no time"
        lines.append(f"  {change['fate']:<11}{change['op'] or ''}  {moment}  {change['sequence']}  {change['change_id']}")
        lines.extend(f"    {side:<7}{_shown(change[side])}" for side in ("before", "after") if change[side] is not None)
        for message in change["messages"]:
            lines.append(f"    message {message['topic']}:{message['partition']}:{message['offset']}  {_printable(message['value'])}")
    if not found["changes"]:
        lines.append("  no change of silver has these values")
    return lines


def _shown(values: Mapping[str, Any]) -> str:
    return _printable(", ".join(f"{name}={value}" for name, value in values.items()))


def _printable(text: str | None) -> str:
    if text is None:
        return "null"
    clean = "".join(character if character.isprintable() else "�" for character in text)
    return clean if len(clean) <= _WIDEST else f"{clean[:_WIDEST]}… ({len(text):,} characters; --json prints all)"
