"""Errors of decoding, of the replicas, and of the checks at the end of a run."""

from framework.explanations.explanation import Explanation

EXPLANATIONS = (
    Explanation(
        "BAD_VALUE",
        "A value does not fit the type of its column, and the table is set to wait for a correction.",
        "The source has a value such as `0000-00-00`, or the configured type is too narrow, with "
        "`bad_values: park`.",
        "Correct the value in the source, or set `bad_values: null`, and run again. Or give the column "
        "another type under `tables: columns:`, then `mainstem rebuild TABLE --from bronze`: where messages "
        "declare no types, silver holds values as they were read with the former setting.",
        "Write: `columns: {price: {type: string}}`.",
    ),
    Explanation(
        "BRONZE_INCOMPLETE",
        "Files of `bronze/messages` that silver has not read are gone.",
        "Somebody deleted files of the table, or a clean-up outside Mainstem did.",
        "Restore the files, or the newest state of the table. If they are lost, set aside "
        "`bronze/messages` and the checkpoints of bronze, and land the messages again; the next run then "
        "names what to do about silver (BRONZE_REPLACED). See Begin again in Operations.",
        "Do: restore bronze/messages from a backup, then `mainstem run`.",
    ),
    Explanation(
        "BRONZE_REWRITTEN",
        "Messages in `bronze/messages` were changed or deleted by something other than `mainstem forget`.",
        "Somebody ran UPDATE, DELETE, MERGE or RESTORE on the table.",
        "Restore the version that the error names. That alone is not enough: also let the stream of silver "
        "begin again, because it cannot pass these commits, and each source whose messages landed since. The "
        "error names the checkpoints. See Begin again in Operations.",
        "Do: run `RESTORE TABLE … TO VERSION AS OF 41` on bronze/messages, with the number from the error.",
    ),
    Explanation(
        "BRONZE_TOO_SHORT",
        "A rebuild from bronze is refused, because bronze lacks messages of the table.",
        "Old messages were removed from `bronze/messages`.",
        "Bring them back, or rebuild from silver, which has their changes.",
        "Do: `mainstem rebuild shop.orders`, without `--from bronze`.",
    ),
    Explanation(
        "COLUMNS_DIFFER_BY_CASE",
        "Two columns of a table differ only by upper and lower case.",
        "The source allows such names, which Delta does not; or the source has renamed a column to other "
        "letters and the feed has no statement about it.",
        "Where the feed has statements, rename one in the source. Otherwise write `schema_policy: ignore` "
        "for the table: its replica keeps the columns that it has, and the other spelling is left out, so "
        "that new rows have null there. Or exclude the table, as a new table or a column of the key needs.",
        "Found: columns `Name` and `name`. Write: `{match: shop.orders, schema_policy: ignore}`.",
    ),
    Explanation(
        "ENCODING_CONTRADICTED",
        "Messages wait, because a value is not written as the setting of the source, or as earlier values.",
        "The setting is wrong, or the connector was configured in another way since then.",
        "Write the setting as the connector has it, and run again: the messages are decoded then. "
        "`mainstem rebuild TABLE --from bronze` corrects tables that were read in another mode before.",
        "Found: `decimals: base64` and a decimal `12.50`. Write: `decimals: text`.",
    ),
    Explanation(
        "ENCODING_UNKNOWN",
        "Messages wait, because their values can be read in several ways.",
        "The feed does not say how its connector writes decimals, bytes or times, and the values seen so far "
        "do not show it.",
        "Write the setting as the connector has it, and run again: the messages are decoded then. "
        "`mainstem rebuild TABLE --from bronze` corrects tables that were read in another mode before.",
        "Write: `decimals: text` below `sources.crm`.",
    ),
    Explanation(
        "EPOCHS_LOST",
        "`ops/epochs` is gone, and nothing else says where the epochs of a source begin.",
        "The table was deleted or not copied with the lakehouse.",
        "Restore it. Or, if all messages in bronze belong to the configured epochs, create the empty file "
        "`<checkpoint>.reset` that the error names and run again.",
        "Do: restore ops/epochs from a backup, then `mainstem run`.",
    ),
    Explanation(
        "ERASE_UNCLEAR",
        "The feed says that the table was erased, without the statement: whether it was dropped or emptied "
        "is not known.",
        "The source of the feed does not send its statements, or not all of them.",
        "Let the feed carry the statements, then drop the table in the source and create it again: with "
        "these statements it starts anew. Or exclude the table. Its changes wait, and readers see the rows "
        "of before; no policy and no rebuild can tell what the erasure was.",
        "Write: `{match: shop.orders, exclude: true}`.",
    ),
    Explanation(
        "GATE_FAILED",
        "Rows of a batch break a rule with `gate: true`, so the batch is not applied.",
        "The source has rows that the rule forbids.",
        "Correct the rows in the source, or change the rule, and run again. The batch waits in silver; "
        "`mainstem status` shows keys of such rows.",
        "Found: 2 rows without a name, rule `{not_null: name, gate: true}`.",
    ),
    Explanation(
        "KEY_TYPES_DIFFER",
        "A column of the key has another type in the source than before, and no type holds the values of "
        "both.",
        "The two types write one value in different texts: `2024-03-01T10:00:00` as a wall time and "
        "`2024-03-01T09:00:00Z` as an instant. Compared as texts, an update would add a second row, and a "
        "delete would leave the row.",
        "Write the `type` that it has now below `columns:`, then raise `epoch` and load a snapshot: rows "
        "whose key has the other type are listed as bad keys, until it brings them again.",
        "Found: a `DATETIME` that became a `TIMESTAMP`. Write: `columns: {at: {type: timestamp}}`.",
    ),
    Explanation(
        "KEY_VALUES_UNKNOWN",
        "The key of a table has a column whose values in older rows no message tells.",
        "A statement added the column, such as AUTO_INCREMENT or IDENTITY: the source numbered the rows that "
        "it had, and sends none of them again. A change of such a row names a number that Mainstem has never "
        "seen.",
        "Load the table anew, and raise `epoch` of its source by one for the messages of that load: they "
        "bring all rows with their keys. Until then readers see the rows of before, the changes of the table "
        "wait, and the other tables go on. A rebuild does not help.",
        "Found: the key is (id) now. Write: `epoch: 2` below `sources.orders`.",
    ),
    Explanation(
        "MESSAGES_UNACCOUNTED",
        "A batch did not give each message exactly one outcome, so nothing of it was written.",
        "A fault in Mainstem.",
        "Report it, with the numbers in the error. Bronze keeps every message.",
        "Found: 1,000 messages in a batch, 999 outcomes.",
    ),
    Explanation(
        "NOT_JUDGED",
        "The quality rules could not be evaluated.",
        "A table cannot be read, or a rule fails for a technical reason; the error names it.",
        "Fix the cause and run again. `mainstem status --verify` checks the tables without the rules.",
        "Do: `mainstem status --verify`.",
    ),
    Explanation(
        "REBUILD_WAITS",
        "A very large table must be rebuilt, and waits for the command.",
        "A statement came later than rows behind it, or a column takes a type to which Delta cannot widen "
        "the old one. Smaller tables are rebuilt in the same run.",
        "Rebuild the table when the cluster has time. Until then its readers see the rows of before, its new "
        "changes wait, and the other tables go on.",
        "Do: `mainstem rebuild shop.orders`.",
    ),
    Explanation(
        "REPLICA_OF_UNNAMED_SOURCE",
        "The place of the table's replica has the replica of a source that the configuration does not name.",
        "A source was renamed, or it was left out and another one has a table of that name. Replica and "
        "history may hold what the new source does not have: nothing is written over them.",
        "Name that source again: both replicas need different names then (`replica`). To go on with the new "
        "source, rebuild the table: replica and history are made from the changes of the new source alone.",
        "Found: shop.orders of source orders. Do: `mainstem rebuild shop.orders`.",
    ),
    Explanation(
        "REPLICA_TAKEN",
        "Two tables would have the same replica.",
        "Two sources have a table of the same name, or two names differ only by case.",
        "Give one of them another name with `replica`; `source` says which of them is meant.",
        "Write: `{match: shop.orders, source: archive, replica: archive.orders}`.",
    ),
    Explanation(
        "SCHEMAS_LOST",
        "`silver/schemas` is gone, and with it the types of the columns.",
        "The table was deleted or not copied with the lakehouse.",
        "Restore it. Or, where bronze still has all messages, delete what the error names and run again. See "
        "Begin again in Operations.",
        "Do: restore silver/schemas from a backup, then `mainstem run`.",
    ),
    Explanation(
        "SCHEMA_CHANGE_REFUSED",
        "The columns or the key of the source's table changed, and `schema_policy: fail` forbids it.",
        "A column was added, dropped, renamed or given another type in the source, or the table has another "
        "key or none.",
        "Set another `schema_policy` for the table, or exclude it, and run again. Its changes wait.",
        "Write: `{match: shop.orders, schema_policy: lenient}`.",
    ),
    Explanation(
        "SILVER_FAILED",
        "The stream that decodes messages failed.",
        "The storage or the checkpoint has a fault; the error has the reason.",
        "Run again. If files of the checkpoint are damaged, delete it, create the empty file "
        "`<checkpoint>.reset` and run again.",
        "Do: `mainstem run --debug`.",
    ),
    Explanation(
        "SILVER_REPLACED",
        "`silver/changes` is gone, while its checkpoint exists.",
        "The table was deleted or not copied with the lakehouse.",
        "Restore the newest state of the table; with an older one follow OLDER_COPY. Or delete the "
        "checkpoint that the error names, to read all of bronze again. See Begin again in Operations.",
        "Do: restore silver/changes from a backup, then `mainstem run`.",
    ),
    Explanation(
        "SOURCE_RESET",
        "The positions of a source start again, so the source has stopped.",
        "The feed comes from a new server, from a restored backup, or from a log that was reset.",
        "Do what the error says. Mostly that is to raise `epoch` of the source by one and to run again: what "
        "has waited is processed, and nothing is lost. If the positions did not start again (a clock was "
        "wrong, or a tool sent old messages with new times), a raised epoch is still the only way on: "
        "messages from the stop on then count as newer than all before, so compare the tables with the "
        "source, and seed what is wrong. For messages of a topic that was deleted before, a raised epoch "
        "would let old values win, so the error names other steps. See Begin again in Operations.",
        "Write: `epoch: 2` below `sources.orders`.",
    ),
    Explanation(
        "TOO_MANY_REPLAYS",
        "Too many batches were decoded again since the last new message.",
        "`mainstem replay` or `rebuild --from bronze` was repeated very often without a new message.",
        "Land a message, run, and repeat the command.",
        "Do: `mainstem run`, then `mainstem replay`.",
    ),
    Explanation(
        "TRACKED_COLUMN_MISSING",
        "`history: track` names a column that the table does not have.",
        "The name is misspelled, the source has dropped the column, or the entry is for tables that lack it. "
        "A renamed column is found by its earlier name.",
        "Correct `track` under `tables:` and run again; the error lists the columns. The table waits: "
        "without the column, all versions of a row would count as the same.",
        "Found: `history: {track: [pirce]}`. Write: `history: {track: [price]}`.",
    ),
)
"""In the order of the alphabet."""
