"""Typed columns out of images."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from gold.changes.wide_images import with_texts
from gold.schema.casting import typed
from gold.schema.layout import Layout


def with_cells(
    frame: DataFrame, layout: Layout, image: str = "after", *, marked: str | None = None
) -> DataFrame:
    """Adds the typed source columns c0… of an image, and h0…: whether the image `marked` has each of them."""
    spread = with_texts(frame, image, [c.name for c in layout.columns], marked=marked)
    cells = [typed(F.col(f"t{i}"), c.type).alias(f"c{i}") for i, c in enumerate(layout.columns)]
    return spread.select(*frame.columns, *cells, *(f"h{i}" for i in range(len(layout.columns)) if marked))
