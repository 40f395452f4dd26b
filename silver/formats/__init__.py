"""The formats, one module each. A new format adds its name here; `CONTRIBUTING.md` shows how."""

from __future__ import annotations

from importlib import import_module

from silver.decoding import Format

_NAMES = (
    "arcion",
    "canal",
    "datahub_blob",
    "datahub_tuple",
    "debezium",
    "dms",
    "lindorm",
    "maxwell",
    "ogg",
    "oms_canal",
    "oms_dataworks",
    "oms_default",
    "oms_default_extend",
    "oms_shareplex",
)

FORMATS: dict[str, Format] = {name: import_module(f"{__name__}.{name}").FORMAT for name in _NAMES}
