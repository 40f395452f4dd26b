"""The formats, one module each. A new format adds its line here."""

from __future__ import annotations

from silver.format import Format
from silver.formats import (
    arcion,
    canal,
    datahub_blob,
    datahub_tuple,
    lindorm,
    oms_canal,
    oms_dataworks,
    oms_default,
    oms_default_extend,
    oms_shareplex,
)

FORMATS: dict[str, Format] = {
    module.FORMAT.name: module.FORMAT
    for module in (
        arcion,
        canal,
        datahub_blob,
        datahub_tuple,
        lindorm,
        oms_canal,
        oms_dataworks,
        oms_default,
        oms_default_extend,
        oms_shareplex,
    )
}
