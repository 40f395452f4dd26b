"""Everything that the author of a format needs. `CONTRIBUTING.md` shows a whole format, step by step. Pure.

A format is one module in `silver/formats/`: a function `decode(message, context)` and a record `FORMAT`. It
imports from this package, from `framework/contracts/` (`RawMessage`, `RowChange`, `Control`, `Malformed`,
`Reason`), and, where the feed declares types, from `silver/values/`. It never imports another format; what
two formats share is in `silver/envelopes/`.

The contract
    `Format` is the record that registers a format. Its fields say how updates arrive, where keys and order
    come from, and whether an update arrives as two messages (`halves`). `Context` is what `decode` may know
    beside the message: the source's name, its options and its time zone. The functions `keys_for`,
    `codecs_for`, `hints_for` and `definition_at` give what the configuration, or the feed itself, says about
    one table. `Options` is the base class for the settings that only this format has.

Reading the message
    `read_json(decoder, value)` gives the envelope as your `msgspec.Struct`, or raises `Malformed` with the
    narrowest reason. Write images as `dict[str, Raw]`, so that every value keeps its exact text.
    `dual_decoder(envelope)` reads the same envelope, generic in the type of its cells, in half the time:
    `DualDecoder.events` tries plain Python values first and decodes the bytes again where those are not
    exact. `NeedsExactDecoding` asks for that second reading. `C` and `S` are the type variables of cells and
    schema blocks, and `plain_cells` checks an image that was read as a cell. `schema_block_cache` interprets
    a schema block that comes with every message once for all of them. `written_parts` gives a message with
    such a block in one reading, where its bytes show that no object repeats a member.

Members of the envelope
    `required` raises `Malformed` where a member is missing. `optional_text`, `number_of` and `time_of` read a
    text, a whole number and a time from bytes; `text_in`, `number_in` and `time_in` do the same from a plain
    cell. `checked_keys` takes the names of the key columns and raises `Malformed` where one of them is in no
    image. `time_or_place` is the time of a message whose position is a time, or 0 where the partition orders.
    `BY_PARTITION` is the advice for messages without a position.

Images
    `undeclared_image(cells)` is all that a feed without types needs: canonical text for each value, and the
    columns. A feed that declares types gives each value's text with `silver.values.canonical.declared_text`,
    and finds the type with `silver.values.declared_types.type_of_declaration` (the type text of a message) or
    `silver.values.sql_types.type_of_ddl` (the type text of a DDL statement). `image_cell_by_cell` does this
    value by value; `read_non_null_cell` gives the token and the text of a single one. Where a message writes
    an image as a list of columns, `named_cells` makes it one of names and cells, and refuses a name with two
    values. `joined_columns` gives the columns of the before and the after image together. `Texts` is the type
    of an image.

Faster images, for feeds with types and many messages
    A `RowPlan` holds the conversion of each column (`Step`) and the `ColumnSet` of all images that have the
    same names and kinds of values (`cell_signature`, `Kinds`). `is_plain` and `is_narrow` say whether an
    image can have a plan. `NumberText` is a cell with the text of a number that has a point or an exponent.
"""

from silver.decoding.cells import (
    C,
    Kinds,
    NeedsExactDecoding,
    NumberText,
    S,
    Texts,
    is_plain,
    named_cells,
    number_in,
    plain_cells,
    read_non_null_cell,
    text_in,
    time_in,
)
from silver.decoding.dual_decoder import DualDecoder, dual_decoder, schema_block_cache
from silver.decoding.duplicate_keys import written_parts
from silver.decoding.format import ColumnHint, Context, Format, Options
from silver.decoding.json_reader import (
    BY_PARTITION,
    checked_keys,
    number_of,
    optional_text,
    read_json,
    required,
    time_of,
    time_or_place,
)
from silver.decoding.row_plans import (
    ColumnSet,
    RowPlan,
    Step,
    cell_signature,
    declared_step,
    image_cell_by_cell,
    is_narrow,
    joined_columns,
    source_columns,
    undeclared_image,
)

__all__ = [
    "ColumnHint",
    "Context",
    "Format",
    "Options",
    "read_json",
    "DualDecoder",
    "dual_decoder",
    "NeedsExactDecoding",
    "C",
    "S",
    "plain_cells",
    "schema_block_cache",
    "written_parts",
    "required",
    "optional_text",
    "number_of",
    "time_of",
    "time_or_place",
    "text_in",
    "number_in",
    "time_in",
    "checked_keys",
    "BY_PARTITION",
    "undeclared_image",
    "named_cells",
    "image_cell_by_cell",
    "read_non_null_cell",
    "joined_columns",
    "source_columns",
    "Texts",
    "RowPlan",
    "Step",
    "ColumnSet",
    "cell_signature",
    "declared_step",
    "Kinds",
    "is_plain",
    "is_narrow",
    "NumberText",
]
