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


def format_rows() -> list[dict[str, str]]:
    """What `mainstem formats` and the README print of each format: a dictionary by column, in order."""
    return [
        {
            "name": f.name,
            "title": f.title,
            "writer": f.writer,
            "update_arrives_as": f.update_arrives_as,
            "keys_come_from": f.keys_come_from,
            "order_comes_from": f.order_comes_from,
            "order": "position" if f.positions_are_unique else "time",
            "options": ", ".join(f.options.model_fields) or "",
            "reference": f.reference,
        }
        for f in FORMATS.values()
    ]
