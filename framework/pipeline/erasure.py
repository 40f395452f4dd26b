"""Erases a row in every layer. A note written first lets a later run finish an interrupted erasure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from framework.contracts.erasure import Erasure
from framework.contracts.table_names import MESSAGES_TABLE
from framework.lakehouse.small_files import is_local, read_note, write_note
from framework.pipeline.fault_injection import crash_point
from framework.pipeline.layer import Run, installed_layers

ErasedCounts = Mapping[str, Mapping[str, int]]
"""The number of erased rows, by layer and by kind."""


def erase(run: Run, erasure: Erasure) -> ErasedCounts:
    """Erase a row in every layer; to repeat it changes nothing."""
    write_note(run.spark, _note_path(run), json.dumps(asdict(erasure), ensure_ascii=False))
    crash_point("forget.after_note")
    version = run.lake.version(run.spark, MESSAGES_TABLE)
    erased: dict[str, Mapping[str, int]] = {}
    try:
        _erase_layers(run, erasure, erased)
    except Exception:
        # bronze, the first layer, has erased nothing yet: a later run has nothing to finish
        if not erased and run.lake.version(run.spark, MESSAGES_TABLE) == version:
            _forget_note(run)
        raise
    return erased


def check_copies(run: Run) -> None:
    """Refuse to search older copies of tables: the newest ones may have more of a row, and come back with it.

    Raises:
        MainstemError: OLDER_COPY.
    """
    for layer in installed_layers():
        if layer.check_copies is not None:
            layer.check_copies(run)


def is_unfinished(run: Run) -> bool:
    """Whether an erasure was interrupted."""
    return bool(_noted(run))


def _noted(run: Run) -> dict[str, Any]:
    return dict(json.loads(read_note(run.spark, _note_path(run)) or "{}"))


def finish(run: Run) -> tuple[Erasure, ErasedCounts] | None:
    """Finish an interrupted erasure; returns None where there is none.

    It stays unfinished while the tables of a layer are gone or older copies, and is no obstacle for the
    command that restores them, or tells what to do.
    """
    noted = _noted(run)
    if not noted:
        return None
    erasure = Erasure(
        **{
            **noted,
            "keys": tuple(noted["keys"]),
            "change_ids": tuple(noted["change_ids"]),
            "places": tuple((topic, partition, offset) for topic, partition, offset in noted["places"]),
            "former_names": tuple(
                (database, schema, table) for database, schema, table in noted.get("former_names", ())
            ),
        }
    )
    erased: dict[str, Mapping[str, int]] = {}
    _erase_layers(run, erasure, erased)
    return erasure, erased


def _erase_layers(run: Run, erasure: Erasure, erased: dict[str, Mapping[str, int]]) -> None:
    """Erase a row in every layer, and remove the note if each has done it.

    `erased` gets what each layer has erased, also where a later one fails.
    """
    layers = {layer.name: layer for layer in installed_layers()}
    is_done = True
    for name in ("bronze", "gold", "quality", "silver"):  # silver last: until then the row is found again
        erase = layers[name].erase
        if erase is not None:
            counts = erase(run, erasure)
            erased[name] = dict(counts or {})
            is_done = is_done and counts is not None
            crash_point("forget.between_layers")
    if is_done:
        _forget_note(run)


def _note_path(run: Run) -> str:
    return f"{run.lake.checkpoints}/forget.unfinished"


def _forget_note(run: Run) -> None:
    """Remove the note: it contains the row's key."""
    if is_local(_note_path(run)):
        Path(_note_path(run)).unlink(missing_ok=True)
    else:
        write_note(run.spark, _note_path(run), "{}")
