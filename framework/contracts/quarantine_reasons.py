"""Why a message was quarantined: the closed list that users may filter by."""

from __future__ import annotations

from enum import StrEnum

from framework.contracts.plain_members import plain_members


@plain_members
class Reason(StrEnum):
    """A quarantine reason. The value is what `silver/quarantine.reason` holds."""

    EMPTY = "empty"  # no bytes, or spaces alone, where a message was expected
    ENCODING = "encoding"  # not UTF-8, or a lone surrogate
    NOT_JSON = (
        "not_json"  # not one JSON document: text, HTML, comments, single quotes, text after the document
    )
    TRUNCATED = "truncated"  # the JSON document ends too early
    COMPRESSED = "compressed"  # gzip and other binary wrappings
    SCHEMA_REGISTRY = "schema_registry"  # the Confluent wire format (magic byte and schema id)
    DOUBLE_ENCODED = "double_encoded"  # a JSON document inside a JSON string
    TOO_LARGE = "too_large"  # longer than the configured limit
    TOO_DEEP = "too_deep"  # nested deeper than the configured limit
    TOO_MANY_COLUMNS = "too_many_columns"
    WRONG_SHAPE = "wrong_shape"  # JSON, but not this format: a field missing or of another type
    DUPLICATE_NAME = "duplicate_name"  # one object names a member twice with different values
    UNKNOWN_OP = "unknown_op"  # an operation word that the format does not document
    UNSUPPORTED_VERSION = "unsupported_version"
    MISSING_TABLE = "missing_table"
    MISSING_IMAGE = "missing_image"  # a row change without the image that its operation needs
    MISSING_POSITION = "missing_position"  # no sequence number where the format promises one
    BAD_POSITION = "bad_position"  # a sequence number or time that is not a number
    KEY_NOT_IN_IMAGE = "key_not_in_image"
    BAD_COORDINATES = "bad_coordinates"  # no kcat object, or a row of a table without one of them
    UNPAIRED_BEFORE_IMAGE = "unpaired_before_image"
    AMBIGUOUS_PAIR = "ambiguous_pair"
    RULE_BROKEN = "rule_broken"  # a rule of the configuration with `on_change: quarantine`; `detail` names it
    ENCODING_UNKNOWN = (
        "encoding_unknown"  # a value can be read in several ways; `detail` names the setting that tells
    )
    ENCODING_CONTRADICTED = (
        "encoding_contradicted"  # a value is not written as the setting, or the values before it, say
    )
    DECODER_ERROR = "decoder_error"  # a bug in a decoder: please report it


class Malformed(Exception):
    """Raised by a decoder: the message goes to quarantine with this reason.

    Attributes:
        reason: The reason.
        detail: Which field is wrong; never a value.
        evidence: What the message shows nevertheless of how its source writes values (see `RowChange`).
        table: The database, schema and table of the message, where the reason does not concern excluded
            tables.
    """

    def __init__(
        self,
        reason: Reason,
        detail: str = "",
        *,
        evidence: tuple[str, ...] = (),
        table: tuple[str | None, str | None, str] | None = None,
    ) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason = reason
        self.detail = detail
        self.evidence = evidence
        self.table = table
