"""The formats, one module each. A new format adds its line here."""

from __future__ import annotations

from silver.format import Format
from silver.formats import datahub_blob, datahub_tuple

FORMATS: dict[str, Format] = {
    module.FORMAT.name: module.FORMAT
    for module in (
        datahub_blob,
        datahub_tuple,
    )
}
