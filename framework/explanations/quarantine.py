"""Explanations of the reasons for which messages are in quarantine."""

from __future__ import annotations

from framework.explanations.explanation import Explanation

_DISMISS = "Then `mainstem dismiss` the one in quarantine."
_LAND_AGAIN = "land the messages again, as a new file or to the topic, and `mainstem dismiss` these"
_END = "Then `mainstem replay` after a new release or setting, or `mainstem dismiss`."

EXPLANATIONS = (
    Explanation(
        "ambiguous_pair",
        "Halves of several updates share a position, and it is not certain which belong together.",
        "The source gives the updates of one statement or transaction one sequence number, and their keys or "
        "values fit in several ways.",
        "Compare the rows with the source, and seed the table if they are wrong. `mainstem trace` shows the "
        "halves.",
        "Do: `mainstem trace shop.orders id=17`.",
    ),
    Explanation(
        "bad_coordinates",
        "A line is no object that `kcat -J` writes, or a row of a table lacks a coordinate.",
        "The source has `layout: kcat`, and its files have one value a line or the output of another tool; "
        "or the job that writes the table of the source leaves `topic`, `partition` or `offset` null.",
        "Correct `layout`, or write the files with `kcat -J`, and land them again under new names: lines "
        "that have landed keep their coordinates. For a table of messages, correct the job, and append the "
        "rows again with their coordinates. Then `mainstem dismiss` those in quarantine.",
        'Found: {"op":"c"}. A line of kcat begins with {"topic":"crm","partition":0,"offset":17.',
    ),
    Explanation(
        "bad_position",
        "The sequence number or time of a message is no number, or the time is outside the years 1 to 9999.",
        "Another tool has written or changed the message, or the format is another one.",
        "Check the format with `mainstem detect`. If `format` was wrong, correct it, then `mainstem replay`. "
        f"If a tool changed the messages, correct it, {_LAND_AGAIN}.",
        'Found: "sequenceId": "n/a".',
    ),
    Explanation(
        "compressed",
        "The message is compressed, or binary.",
        "A gzip or zip file has a name without its ending, or a producer compresses the values.",
        f"Rename the file so that it ends with `.gz`, or unpack it, as a new file. {_DISMISS}",
        "Do: `mv orders.jsonl orders-2.jsonl.gz`.",
    ),
    Explanation(
        "decoder_error",
        "The decoder of the format failed: this is a fault of Mainstem.",
        "The message has a shape that nobody has thought of.",
        "Report it with the detail and the format, without the values. Messages stay in quarantine "
        "until a release decodes them.",
        "Do: `mainstem replay` after the update.",
    ),
    Explanation(
        "double_encoded",
        "The message is a text that holds a JSON document, not the document.",
        "A producer or a sink has serialised it twice.",
        "Let the producer serialise messages once. Unpack these texts, and land the messages again, as a new "
        "file or to the topic. Then `mainstem dismiss` those in quarantine.",
        'Found: "{\\"op\\":\\"c\\"}".',
    ),
    Explanation(
        "duplicate_name",
        "An object names a member twice, with different values.",
        "The source has columns whose names differ by case alone, or a tool has merged two objects.",
        f"Correct the tool that writes the messages: it is not certain which value counts. {_DISMISS}",
        'Found: {"id": 1, "id": 2}.',
    ),
    Explanation(
        "empty",
        "There are no bytes, or spaces alone, where a message was expected.",
        "A line has only spaces, or a record of a topic has a null or empty value in a format without "
        "tombstones.",
        "Nothing, if the producer sends such messages on purpose: `mainstem dismiss` them.",
        "Found: a line of three spaces.",
    ),
    Explanation(
        "encoding",
        "The message is not UTF-8, or a value is not text in the encoding that `decode` names.",
        "`decode` under `columns:` names the wrong encoding, then `detail` names the column; or the file is "
        "written in UTF-16, Latin-1 or another character set, or is no text (compressed by zstd, say).",
        "Correct `decode`, then `mainstem rebuild TABLE --from bronze`: it reads these messages, too; where "
        "silver has no other row of the table, `mainstem replay` does. Do not dismiss such messages: their "
        "rows would be lost. Convert a file in another character set, or unpack a compressed one, as a new "
        f"file: `mainstem detect` on the folder says which. {_DISMISS}",
        "Do: `iconv -f UTF-16 -t UTF-8 orders.jsonl > orders-2.jsonl`.",
    ),
    Explanation(
        "key_not_in_image",
        "A row lacks a column of the key.",
        "`keys:` of the configuration misspells a column, or the source logs only some columns.",
        "Correct a wrong `keys:` under `tables:`, then `mainstem replay`: it mends nothing else. If the "
        "source does not log the key, let it, and seed the table for what was lost. Then `mainstem dismiss` "
        "these.",
        "Found: `keys: [order_id]`, and rows with `orderId`.",
    ),
    Explanation(
        "missing_image",
        "A change lacks the image of the row that its operation needs.",
        "The source logs too little (`REPLICA IDENTITY`, `binlog_row_image`), or a tool has removed it.",
        "Let the source log whole rows, and seed the table for what was lost. Then `mainstem dismiss` those "
        "in quarantine.",
        "Do: `ALTER TABLE orders REPLICA IDENTITY FULL` in the source.",
    ),
    Explanation(
        "missing_position",
        "A message lacks the sequence number that its format promises.",
        "A tool has removed it, or the messages are of a writer without positions.",
        "Where `detail` names `order: partition`, set it, then `mainstem replay`. Otherwise let the tool "
        f"keep the number, {_LAND_AGAIN}.",
        "Write: `order: partition` for the source.",
    ),
    Explanation(
        "missing_table",
        "Nothing says to which table a row belongs.",
        "The messages are flattened or shortened, and come from a file.",
        "For `datahub_tuple`, write `table:` of the source, then `mainstem replay`. Otherwise let the tool "
        f"keep the name of the table, or read the topic instead of files, {_LAND_AGAIN}.",
        "Found: a flattened row of Debezium without `__table`.",
    ),
    Explanation(
        "not_json",
        "The message is not one JSON document.",
        "It is CSV, HTML or a log, a document that spans several lines, or a key and a value on one line.",
        "Run `mainstem detect` on the folder: it says what the files look like and how to convert them. "
        f"{_DISMISS}",
        "Do: `jq -c . pretty.json > orders-2.jsonl`.",
    ),
    Explanation(
        "rule_broken",
        "The message breaks a rule of the configuration with `on_change: quarantine`.",
        "A value is not what the rule expects; `detail` names the rule.",
        "If the rule was wrong, correct it, then `mainstem replay`. If the value is, correct the row in the "
        "source, which sends a new change, and `mainstem dismiss` this one.",
        "Do: `mainstem report`, and read the part on quarantine.",
    ),
    Explanation(
        "schema_registry",
        "The message has the wire format of a schema registry: Avro, Protobuf or JSON with a schema id.",
        "The producer uses a converter with a registry.",
        f"Configure the converter to write JSON without a registry, {_LAND_AGAIN}.",
        "Write: `value.converter=org.apache.kafka.connect.json.JsonConverter` for the connector.",
    ),
    Explanation(
        "too_deep",
        "The message is nested more deeply than any reader of JSON follows.",
        "A document in a column is nested hundreds of levels deep, or the message is hostile.",
        f"Let the source write such a document as a text. {_END}",
        "Found: thousands of brackets, one inside the other.",
    ),
    Explanation(
        "too_large",
        "The message, or what would be made of it, is larger than a limit.",
        "A column holds a large file, or one statement changes very many rows; `detail` names the limit.",
        f"Leave the column out at the source, or let the source write smaller messages. {_DISMISS}",
        "Found: a message of 600 MB.",
    ),
    Explanation(
        "too_many_columns",
        "The message has more columns than a table can have here.",
        "It is another kind of document, whose members are values; `detail` names the limit.",
        f"Check the format with `mainstem detect`, or exclude the table. {_END}",
        "Found: a document whose members are ids.",
    ),
    Explanation(
        "truncated",
        "The JSON document ends too early.",
        "The file was copied while it was written, or a limit of a producer has cut the message.",
        f"Land the message again, whole, as a new file. {_DISMISS}",
        'Found: {"op":"c","after":{"id".',
    ),
    Explanation(
        "unknown_op",
        "The message names an operation that its format does not document.",
        "It is of a newer release of the source, or of another format.",
        f"Check the format with `mainstem detect`, and report the operation if the format is right. {_END}",
        'Found: "type": "MERGE" in a message of Canal.',
    ),
    Explanation(
        "unpaired_before_image",
        "The first half of an update waited for its second half longer than the pairing timeout.",
        "The second half was lost, or comes later than `pairing_timeout`. If it still comes, the update is "
        "completed.",
        "Raise `pairing_timeout` if halves come late; else find out where the second half was lost.",
        "Write: `pairing_timeout: 1 hour` for the source.",
    ),
    Explanation(
        "unsupported_version",
        "The message is of a version of the format that Mainstem does not know.",
        "The tool at the source was updated.",
        f"Update Mainstem, or let the tool write the earlier version. {_END}",
        "Do: `mainstem formats` lists what is known.",
    ),
    Explanation(
        "wrong_shape",
        "The message is JSON, but not of this format: a member is missing or has another type.",
        "The format of the source is another one, its `layout` is wrong, or a tool has wrapped the messages.",
        "Run `mainstem detect` on the folder or topic. If `format` was wrong, correct it, then `mainstem "
        "replay`. With another `layout` messages have other coordinates: correct it, and land the files "
        f"under new names. {_DISMISS}",
        "Found: a message of Maxwell in a source with `format: canal`.",
    ),
)
