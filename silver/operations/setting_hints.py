"""Notes for people on settings that a feed's columns show to be missing."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence

from pyspark.sql import Row
from pyspark.sql import functions as F

from framework.config.model import Config
from framework.contracts.quarantine_reasons import Reason
from framework.contracts.table_names import SCHEMAS_TABLE
from framework.naming import dotted_name
from framework.pipeline.layer import Run
from framework.text.formatting import quantity
from silver.batches.changes_table import changes_since
from silver.batches.encodings import read_encodings
from silver.changes.setting_evidence import TOMBSTONES, TRANSACTIONS
from silver.decoding.format import Format, no_options
from silver.formats import FORMATS
from silver.operations.encoded_columns import encoded_columns

_MOST_SCHEMAS = 1_000
_DECODED = frozenset({Reason.UNPAIRED_BEFORE_IMAGE, Reason.AMBIGUOUS_PAIR, Reason.RULE_BROKEN})
"""Why messages are in quarantine that have been decoded."""
_SIGNS = {
    TRANSACTIONS: "several changes have one position, so that some may be lost as duplicates, or count in"
    " another order than that of the source (`binlog_transaction_compression=ON` of MySQL)",
    TOMBSTONES: "tombstones follow no delete, so that deleted rows may stay in the replicas (flattened rows"
    " under `delete.tombstone.handling.mode: tombstone`)",
}
"""What messages have shown, by the kind of evidence."""


def hints(run: Run, counts: Sequence[Row]) -> tuple[str, ...]:
    """Notes on settings that are missing, and on columns that look encoded, from the counts of new batches.

    Nothing is read for sources whose format has no such settings, and declares all types.
    """
    return (
        *_missing_settings(run, counts),
        *_shown_settings(run, counts),
        *_encoded_columns(run, counts),
        *refusals(run.config, counts),
    )


def refusals(config: Config, counts: Iterable[Row]) -> tuple[str, ...]:
    """Notes on sources whose settings, or whose format, do not fit their messages at all."""
    notes, by_source = [], defaultdict[str, list[Row]](list)
    for row in counts:
        by_source[row["source"]].append(row)
    for name, source in sorted(config.sources.items()):
        mine = by_source.get(name, ())
        refused = sum(
            row["rows"] for row in mine if row["kind"] == "quarantined" and row["reason"] not in _DECODED
        )
        without_key = sum(row["rows"] for row in mine if row["reason"] == Reason.KEY_NOT_IN_IMAGE)
        if without_key:
            notes.append(
                f"source {name}: {quantity(without_key, 'row lacks', 'rows lack')} a column of the key:"
                " correct `keys:` under `tables:` if it names the key, then `mainstem replay`"
            )
        elif refused and refused == sum(row["rows"] for row in mine):
            place = "; `mainstem detect` on its folder says what its files look like" if source.files else ""
            notes.append(f"source {name}: no message can be decoded as {source.format}{place}")
    return tuple(notes)


def _encoded_columns(run: Run, counts: Sequence[Row]) -> tuple[str, ...]:
    sources = [name for name, s in run.config.sources.items() if FORMATS[s.format].has_table_definitions]
    batches = sorted({row["batch"] for row in counts if row["kind"] == "row" and row["source"] in sources})
    if not batches:
        return ()
    changes = changes_since(run.spark, run.lake, batches[0]).where(F.col("batch").isin(*batches))
    return encoded_columns(changes, run.lake.read(run.spark, SCHEMAS_TABLE), run.config)


def _missing_settings(run: Run, counts: Sequence[Row]) -> tuple[str, ...]:
    """A note for each source with a table that lacks a setting."""
    sources = [
        name
        for name, source in run.config.sources.items()
        if FORMATS[source.format].missing_options is not no_options
    ]
    batches = sorted({row["batch"] for row in counts if row["kind"] == "row" and row["source"] in sources})
    if not batches:
        return ()
    changes = changes_since(run.spark, run.lake, batches[0]).where(
        F.col("batch").isin(*batches) & F.col("source").isin(*sources)
    )
    schemas = run.lake.read(run.spark, SCHEMAS_TABLE).select(
        "schema_id", F.col("columns.name").alias("names")
    )
    at = ["source", "database", "schema", "table"]
    seen = (
        changes.where("kind = 'row'")
        .select(*at, "schema_id")
        .distinct()
        .limit(_MOST_SCHEMAS)
        .join(schemas, "schema_id")
    )
    found: dict[str, str] = {}
    for row in seen.select(*at, "names").collect():
        source = run.config.sources[row["source"]]
        note = hint(
            row["source"],
            dotted_name(*row[1:4]),
            row["names"],
            FORMATS[source.format],
            source.options.model_dump(),
        )
        if note is not None:
            found.setdefault(row["source"], note)
    return tuple(note for _, note in sorted(found.items()))


def _shown_settings(run: Run, counts: Sequence[Row]) -> tuple[str, ...]:
    """A note for each setting that the messages of a source with new rows have shown to be missing."""
    names = sorted({row["source"] for row in counts if row["kind"] == "row"} & run.config.sources.keys())
    lacking = [
        (name, kind, option, value)
        for name in names
        for kind, (option, value) in FORMATS[run.config.sources[name].format].shown_settings.items()
        if str(getattr(run.config.sources[name].options, option)).lower() != value
    ]
    if not lacking:
        return ()
    known = read_encodings(run.spark, run.lake)
    shown = {kind: known.with_evidence(kind) for kind in _SIGNS}
    return tuple(
        f"source {name}: {_SIGNS[kind]}: write `{option}: {value}` for the source, then `mainstem rebuild"
        " TABLE --from bronze` for its tables"
        for name, kind, option, value in lacking
        if name in shown[kind]
    )


def hint(
    source: str, table: str, columns: Collection[str], fmt: Format, options: dict[str, object]
) -> str | None:
    """What to write for a source whose table has these columns.

    None if nothing is missing or the setting is there.
    """
    missing = {
        name: value for name, value in fmt.missing_options(columns).items() if options.get(name) is None
    }
    if not missing:
        return None
    settings = ", ".join(f"`{name}: {value}`" for name, value in missing.items())
    return (
        f"source {source}: the columns of {table} show that a setting is missing: write {settings} for the"
        f" source, then `mainstem rebuild {table} --from bronze`"
    )
