"""One small feed, and each command on it once, for each platform; as a program it prints their outputs.

The feed has what platforms could treat differently: halves, a history, odd names of tables and columns, a
table without a key, a new column and a wider type after the first run, a quarantined message, a delete.
"""

from __future__ import annotations

import contextlib
import faulthandler
import io
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from framework.cli import main
from framework.spark.session import local_settings, start_local, stop_session
from tests import serverless

ITEM = [
    {"name": "id", "type": "LONG"},
    {"name": "name", "type": "STRING"},
    {"name": "unit price", "type": "STRING"},
    {"name": "size", "type": "LONG"},
]
WIDER = [*ITEM, {"name": "note", "type": "STRING"}]
ODD = {"dbName": "Sh-op", "tableName": "line__items"}
LOG = {"tableName": "log"}

PARTS = (
    [
        ("INSERT", 1, None, {"id": 1, "name": "pen", "unit price": "1.50"}, {}),
        ("INSERT", 2, None, {"id": 2, "name": "ink", "unit price": "9.90"}, {}),
        ("UPDATE_BEFOR", 3, {"id": 1, "name": "pen", "unit price": "1.50"}, None, {}),
        ("UPDATE_AFTER", 3, None, {"id": 1, "name": "pen", "unit price": "1.75"}, {}),
        ("INSERT", 4, None, {"id": 7, "name": "本", "unit price": "3.00"}, ODD),
        ("INSERT", 5, None, {"id": 1, "name": "first", "unit price": None}, LOG),
        "no message",
        ("UPDATE_BEFOR", 6, {"id": 7, "name": "本", "unit price": "3.00"}, None, ODD),
    ],
    [
        ("UPDATE_AFTER", 6, None, {"id": 8, "name": "本", "unit price": "3.00"}, ODD),
        ("DELETE", 7, {"id": 2, "name": "ink", "unit price": "9.90"}, None, {}),
        (
            "INSERT",
            8,
            None,
            {"id": 3, "name": "nib", "unit price": "1234567.25", "note": "wide"},
            {"columns": WIDER},
        ),
        ("INSERT", 9, None, {"id": 1, "name": "again", "unit price": "2.00"}, LOG),
    ],
)

STEPS = (("land 0",), ("run",), ("land 1",), ("run",), ("status",))
AT_ONCE = (("land 0",), ("land 1",), ("run",), ("status",))
ALL = (
    ("status",),
    ("plan",),
    *STEPS,
    (
        "sql",
        "SELECT i.name, h.name, l.name FROM `shop.item` i JOIN `shop.item__history` h USING (id) "
        "JOIN `shop.log` l USING (id) ORDER BY 1, 2, 3",
    ),
    ("plan",),
    ("rebuild", "shop.item"),
    ("rebuild", "shop.item", "--from", "bronze"),
    ("replay",),
    ("dismiss", "--reason", "not_json", "--because", "no change", "--yes"),
    ("seed", "shop.item", "--from", "dump.csv", "--position", "2"),
    ("run",),
    ("trace", "shop.item", "id=1"),
    ("sql", "SELECT kind, count(*) FROM `silver.changes` WHERE kind <> 'half' GROUP BY kind ORDER BY kind"),
    ("maintain",),
    ("forget", "shop.item", "id=1"),
    ("forget", "shop.log", "name=again"),
    ("run",),
    ("status", "--verify"),
)


def land(folder: Path, number: int) -> None:
    """Drop one part of the feed into the landing folder."""
    lines = [
        text if isinstance(text, str) else json.dumps(message(*text), ensure_ascii=False)
        for text in PARTS[number]
    ]
    hidden = folder / "landing" / f".part-{number}"
    hidden.parent.mkdir(parents=True, exist_ok=True)
    hidden.write_text("\n".join(lines), encoding="utf-8")
    hidden.rename(folder / "landing" / f"part-{number}.jsonl")


def message(op: str, sequence: int, before: Any, after: Any, more: Mapping[str, Any]) -> dict[str, Any]:
    source = {
        "dbType": "mysql",
        "dbName": "shop",
        "tableName": "item",
        **{k: v for k, v in more.items() if k != "columns"},
    }
    keys = [] if source["tableName"] == "log" else ["id"]
    schema = {"dataColumn": more.get("columns", ITEM), "primaryKey": keys, "source": source}
    images = {
        side: None if image is None else {"dataColumn": sized(image)}
        for side, image in (("before", before), ("after", after))
    }
    time = {"eventTime": 1_700_000_000_000 + sequence * 1000}
    return {
        "schema": schema,
        "payload": {"op": op, "sequenceId": sequence, "timestamp": time, **images},
        "version": "1.0.0",
    }


def sized(image: Mapping[str, Any]) -> dict[str, Any]:
    """The image with its column `size`, which outgrows 64 bits in a row of the second part."""
    return {**image, "size": 2**66 if "note" in image else image["id"]}


def configure(folder: Path, lakehouse: str) -> Path:
    """Write the configuration; `lakehouse` is its lines about the lakehouse."""
    file = folder / "mainstem.yml"
    folder.mkdir(parents=True, exist_ok=True)
    source = "sources:\n  feed: {format: datahub_blob, files: ./landing, pairing_timeout: 10 minutes}\n"
    file.write_text(
        f"pipeline: shop\n{lakehouse}\n{source}tables:\n  - match: '*.*'\n    history: true\nquality: {{}}\n",
        encoding="utf-8",
    )
    return file


def follow(folder: Path, steps: Sequence[Sequence[str]]) -> Iterator[tuple[Sequence[str], int, Any]]:
    """Every command of the steps and its answer; `land 0` drops a part of the feed and is none."""
    (folder / "landing").mkdir(exist_ok=True)
    (folder / "dump.csv").write_text("id,name,unit price\n2,ink,9.90\n9,cap,0.40\n", encoding="utf-8")
    for step in steps:
        if step[0].startswith("land "):
            land(folder, int(step[0].removeprefix("land ")))
        else:
            yield step, *_answer(folder, step)


def _answer(folder: Path, command: Sequence[str]) -> tuple[int, Any]:
    words = [str(folder / word) if word == "dump.csv" else word for word in command]
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        code = main([*words, "--json", "-c", str(folder / "mainstem.yml")])
    return code, json.loads(printed.getvalue() or "null")


if __name__ == "__main__":
    serverless.forbid()
    session = start_local(
        local_settings("platforms", cores=2) | serverless.SETTINGS
    )  # one for all commands: each would start its own
    for answer in follow(Path(sys.argv[1]), {"all": ALL, "at once": AT_ONCE}[sys.argv[2]]):
        print(json.dumps(answer), flush=True)
    stop_session(session)
    faulthandler.dump_traceback_later(
        120, exit=True
    )  # a client that is left open would now ask for ten minutes
