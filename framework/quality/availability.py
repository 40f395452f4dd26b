"""Whether Great Expectations, an extra of the installation, is there, and what happens without it."""

from __future__ import annotations

from dataclasses import replace
from importlib.util import find_spec

from framework.config.quality import Scan
from framework.errors import MainstemError
from framework.pipeline.layer import Run

_HOW = (
    "install Mainstem's extra `quality`, for instance `pip install 'great-expectations>=1.24,<2'` beside it"
)


def is_installed() -> bool:
    """Whether Great Expectations can be imported; it is not imported for that."""
    return find_spec("great_expectations") is not None


def judgeable(run: Run) -> tuple[Run, tuple[str, ...]]:
    """The run as this installation can judge it, with a note for people where that differs.

    Without Great Expectations `scan: measured` becomes `scan: counted`: the same measurements, whose counts
    give the verdict.

    Raises:
        MainstemError: GREAT_EXPECTATIONS_MISSING, for `scan: full`, which only Great Expectations can do.
    """
    quality = run.config.quality
    if quality.scan is Scan.COUNTED or is_installed():
        return run, ()
    if quality.scan is Scan.FULL:
        raise MainstemError(
            "GREAT_EXPECTATIONS_MISSING",
            found="`scan: full`, and Great Expectations is not installed",
            where="quality.scan",
            action=f"{_HOW}; or write `scan: counted`",
        )
    config = run.config.model_copy(update={"quality": quality.model_copy(update={"scan": Scan.COUNTED})})
    note = f"quality: Great Expectations is not installed, and the counts decide: {_HOW}"
    return replace(run, config=config), (f"{note}; `scan: counted` is the same without this note",)
