"""Errors of the configuration file. Nothing has been read or written when one occurs."""

from framework.explanations.explanation import Explanation

EXPLANATIONS = (
    Explanation(
        "BAD_TABLE_PATTERN",
        "A pattern for tables is not a dotted name.",
        "The pattern has an empty part, or a quotation mark (backtick) without its partner.",
        "Write `database.table` or `database.schema.table`; `*` and `?` are allowed in each part.",
        'Found: "shop.". Write: "shop.*".',
    ),
    Explanation(
        "CONFIG_BAD_REFERENCE",
        "A `${…}` in the configuration is not a reference that Mainstem knows.",
        "The word before the colon is misspelt, or a value contains `${` for another purpose.",
        "Write `${env:NAME}` or `${secret:scope/key}`. Put a text that contains `${` into an environment "
        "variable and refer to that.",
        "Found: ${evn:PASSWORD}. Write: ${env:PASSWORD}.",
    ),
    Explanation(
        "CONFIG_BAD_VALUE",
        "The value of a key is not allowed.",
        "A word is misspelt, a number is out of its range, or a text has the wrong form.",
        "Write one of the allowed values; the error lists them, the nearest one first.",
        "Found: `layout: kcats`. Write: `layout: kcat`.",
    ),
    Explanation(
        "CONFIG_DUPLICATE_KEY",
        "A key is written twice in the same block.",
        "YAML would silently use the second one; Mainstem refuses the file instead.",
        "Keep one of the two.",
        "Found: `exclude: true` and `exclude: false` in one entry of `tables`.",
    ),
    Explanation(
        "CONFIG_ENV_MISSING",
        "A reference names an environment variable that is not set.",
        "The variable is missing in the shell, service or job that starts Mainstem, or its name is misspelt.",
        "Set the variable before you start `mainstem`, or correct the name.",
        "Found: ${env:KAFKA_JAAS}. Do: `export KAFKA_JAAS=…`, then run again.",
    ),
    Explanation(
        "CONFIG_MISSING_KEY",
        "A required key is missing.",
        "The key was forgotten, or it is at another level of the file.",
        "Add the key at the place that the error names.",
        "Found: no key 'format' below `sources.orders`. Write: `format: debezium`.",
    ),
    Explanation(
        "CONFIG_NOT_FOUND",
        "There is no configuration file at this path.",
        "The command runs in another folder, or no configuration has been written yet.",
        "Name the file with `-c FILE`, or write one with `mainstem init`.",
        "Found: no ./mainstem.yml. Do: `mainstem run -c conf/mainstem.yml`.",
    ),
    Explanation(
        "CONFIG_NOT_YAML",
        "The file is not valid YAML.",
        "A bracket or quotation mark is not closed, a tab indents a line, or a value that begins with "
        "`*`, `!` or `@` has no quotation marks.",
        "Correct the text at the line and column that the error names.",
        'Found: `match: *.orders`. Write: `match: "*.orders"`.',
    ),
    Explanation(
        "CONFIG_SECRET_UNAVAILABLE",
        "A secret of a Databricks secret scope cannot be read.",
        "The scope or key does not exist, the user may not read it, or the command runs outside Databricks.",
        "Check scope, key and permission. Outside Databricks use `${env:NAME}`.",
        "Found: ${secret:cdc/kafka} on a laptop. Write: ${env:KAFKA_JAAS}.",
    ),
    Explanation(
        "CONFIG_SOURCES_OVERLAP",
        "Two sources read the same place, or lakehouse or checkpoints are inside a landing folder.",
        "The messages would be read twice, or Mainstem would read its own tables and notes as messages.",
        "Give each source a folder, topic or table of its own. Keep lakehouse and checkpoints outside of "
        "landing folders.",
        "Found: sources `orders` (./landing) and `items` (./landing/items). Do: make them one source, "
        "or move ./landing/items.",
    ),
    Explanation(
        "CONFIG_SOURCE_PLACE",
        "The place of a source is not clear.",
        "A source needs exactly one of `files`, `kafka` and `table`, a Kafka source exactly one of `topics` "
        "and `topic_pattern`. Only a table of messages may have `columns`, only files `layout`, "
        "`auto_loader` and `follow_links`.",
        "Write exactly one of them, and leave out what belongs to another kind of place.",
        "Found: `files` and `table` in one source. Do: remove one.",
    ),
    Explanation(
        "CONFIG_UNKNOWN_FORMAT",
        "The format of a source is unknown.",
        "The name is misspelt, or no such format exists.",
        "Use a name from `mainstem formats`; `mainstem detect PATH` says which format messages have.",
        "Found: `format: debezum`. Write: `format: debezium`.",
    ),
    Explanation(
        "CONFIG_UNKNOWN_KEY",
        "The configuration has a key that Mainstem does not know.",
        "The key is misspelt, is at the wrong level, or belongs to another format.",
        "Use the name that the error suggests. `mainstem validate --schema` prints all keys for editors.",
        "Found: `pairing_timout: 1 hour`. Write: `pairing_timeout: 1 hour`.",
    ),
    Explanation(
        "CONFIG_UNREADABLE",
        "The configuration file exists but cannot be read.",
        "The user may not read it, it is a folder, or it is not UTF-8 text.",
        "Make it a UTF-8 text file that this user may read.",
        "Do: `chmod u+r mainstem.yml`, or save it again as UTF-8.",
    ),
    Explanation(
        "CONFIG_WRONG_TYPE",
        "A value has the wrong type.",
        "A list, a mapping, a number or a text is needed, and the file has something else.",
        "Write the type that the error names.",
        "Found: `keys: order_id`. Write: `keys: [order_id]`.",
    ),
    Explanation(
        "EPOCH_LOWERED",
        "The `epoch` of a source is lower than one that has been used.",
        "The configuration was restored from an old version, or the number was corrected downwards.",
        "Set the epoch that the error names, or a higher one.",
        "Found: `epoch: 1` after messages of epoch 2. Write: `epoch: 2`.",
    ),
)
"""In the order of the alphabet."""
