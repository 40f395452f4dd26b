"""The demo's folder: sample feeds that ship with the package, dropped in parts."""

from __future__ import annotations

from pathlib import Path


def prepare(folder: str | None) -> Path:
    raise SystemExit(2)


def parts(folder: Path) -> list[str]:
    return []


def land(folder: Path, part: str) -> None: ...


def farewell(folder: Path) -> str:
    return ""


def sample(name: str) -> str | None:
    return None
