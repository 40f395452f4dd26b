"""`mainstem forget`: removes a row from all layers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from framework.cli.options import Options, row_key
from framework.cli.terminal import say, say_json, say_note
from framework.config.model import Config
from framework.contracts.erasure import Erasure
from framework.errors import MainstemError
from framework.pipeline.erasure import ErasedCounts, check_copies, erase, finish, is_unfinished
from framework.pipeline.layer import Run, installed_layers
from framework.pipeline.named_table import is_name_of
from framework.pipeline.run import new_run_id
from framework.pipeline.session import open_pipeline, read_config
from framework.text.formatting import quantity
from framework.text.row_trace import row_words

_NOUNS = {
    "messages": ("message", "messages"),
    "changes": ("change", "changes"),
    "pending": ("waiting half", "waiting halves"),
    "quarantined": ("message in quarantine", "messages in quarantine"),
    "replica_rows": ("row of the replica", "rows of the replica"),
    "history_rows": ("row of the history", "rows of the history"),
    "bad_values": ("bad value", "bad values"),
    "reasons": ("reason of a parked table", "reasons of parked tables"),
    "quality_results": ("quality result", "quality results"),
    "runs": ("run", "runs"),
}
"""The nouns of the counts that the layers return: for one, and for many."""

_NOTHING_LEFT = ("NOTHING_TO_FORGET", "TABLE_UNKNOWN")
"""The errors of a search after an interrupted erasure has been finished, where it was the only one."""


def run(options: Options) -> int:
    """Remove a row from replica, history, silver, quarantine and bronze, and print what is left to do."""
    config = read_config(options.config)
    key = row_key(options.key, options.null)
    with open_pipeline(config, is_exclusive=True, finishes=False, notify=say_note) as (lake, spark):
        work = Run(spark, lake, config, new_run_id())
        finished = finish(work)
        check_copies(work)
        done = [finished] if finished and _is_requested(config, finished[0], options.table, key) else []
        find_row = next(layer.find_row for layer in installed_layers() if layer.find_row is not None)
        try:
            found = find_row(work, options.table, key, options.follow)
        except MainstemError as error:
            if not done or error.condition not in _NOTHING_LEFT:
                raise
            found = ()
        done += [(erasure, erase(work, erasure)) for erasure in found]
        is_finished = not is_unfinished(work)
    keys = {tuple(each.items()): dict(each) for erasure, _ in done for each in erasure.keys}
    document: dict[str, Any] = {
        "table": options.table,
        "keys": list(keys.values()),
        "forgotten": _sums([erased for _, erased in done]),
        "is_finished": is_finished,
    }
    if options.json:
        say_json(document)
    else:
        say(_lines(document))
    return 0 if is_finished else 1


def _sums(counts: Sequence[ErasedCounts]) -> dict[str, dict[str, int]]:
    """The counts of all sources, by layer and kind."""
    found: dict[str, dict[str, int]] = {}
    for layers in counts:
        for layer, kinds in layers.items():
            mine = found.setdefault(layer, {})
            for kind, count in kinds.items():
                mine[kind] = mine.get(kind, 0) + count
    return found


def _is_requested(config: Config, erasure: Erasure, table: str, key: Mapping[str, str | None]) -> bool:
    """Whether an erasure that was interrupted is the one that is requested again."""
    replicas = (config.settings(erasure.source, *name).replica_parts for name in erasure.names)
    names = (*erasure.names, *(parts for parts in replicas if parts is not None))
    return any(is_name_of(table, name) for name in names) and dict(key) in [
        dict(each) for each in erasure.keys
    ]


def _lines(document: Mapping[str, Any]) -> list[str]:
    keys = ", ".join(row_words(key) for key in document["keys"])
    counts = {name: count for layer in document["forgotten"].values() for name, count in layer.items()}
    suspects, unread = counts.pop("quarantined_suspects", 0), counts.pop("unread", 0)
    result = "forgotten" if document["is_finished"] else "not forgotten everywhere: run, which finishes it"
    lines = [
        f"{document['table']}  {keys}: {result}",
        "  "
        + ", ".join(
            quantity(n, *_NOUNS.get(name, (name.replace("_", " "),) * 2)) for name, n in counts.items()
        ),
    ]
    if suspects:
        lines.append(
            f"  {quantity(suspects, 'message in quarantine holds', 'messages in quarantine hold')} one of the"
            " values; they cannot be decoded, so that nobody knows whose they are: look at them"
        )
    if unread:
        lines.append(
            f"  {quantity(unread, 'message has', 'messages have')} not been read yet, of the source or of one"
            " that the configuration does not name: run, and forget the row again if it was in them"
        )
    lines.append(
        "  older versions of the tables hold the values until `mainstem maintain` removes their files"
    )
    lines.append("  what the source still sends, and files in landing folders, are yours to remove")
    return lines
