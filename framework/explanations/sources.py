"""Errors of sources (files, Kafka topics, tables of messages) and of dumps."""

from framework.explanations.explanation import Explanation

EXPLANATIONS = (
    Explanation(
        "ARRIVALS_LOST",
        "The list of files that Auto Loader has found is gone.",
        "Its table in `ops` was deleted, while the checkpoint of Auto Loader exists.",
        "Restore the table. Or delete the checkpoint that the error names and run again: all files are "
        "found again, and those that have landed are left out.",
        "Found: ops/arrivals/orders is gone. Do: delete the checkpoint in the error, then `mainstem run`.",
    ),
    Explanation(
        "AUTO_LOADER_FAILED",
        "Auto Loader of Databricks cannot watch the landing folder.",
        "The cluster lacks a permission on the folder or on its notifications.",
        "Grant what the error asks for, or write `auto_loader: false` for the source, which lists the folder "
        "instead.",
        "Write: `auto_loader: false` below `sources.orders`.",
    ),
    Explanation(
        "BRONZE_REPLACED",
        "`bronze/messages` is gone, or is not the table that the checkpoints belong to.",
        "The table was deleted, created again or exchanged for another one.",
        "Restore the newest state of the table; with an older one follow OLDER_COPY. Or delete what the "
        "error names, to read again what is there. See Begin again in Operations.",
        "Do: restore bronze/messages from a backup, then `mainstem run`.",
    ),
    Explanation(
        "CHECKPOINT_LOST",
        "A checkpoint is gone, while the tables have what it had read.",
        "The folder of checkpoints was deleted or not copied with the lakehouse.",
        "Restore its newest state from a backup; with an older one follow OLDER_COPY. Or create the empty "
        "file `<checkpoint>.reset` that the error names and run again: what has been read is left out.",
        "Do: `touch CHECKPOINT.reset && mainstem run`, with the path from the error.",
    ),
    Explanation(
        "DUMP_EMPTY",
        "The dump has no row.",
        "The export failed, or the CSV file has no line of column names, so that its only row counts as one.",
        "Name a dump that has rows; a CSV file begins with a line of column names.",
        "Write: `id,name` as the first line of the CSV file.",
    ),
    Explanation(
        "DUMP_TOO_LARGE",
        "A file of a dump has more rows, or decompresses to more, than its source allows.",
        "The table is large and was dumped into one file, or the file is hostile.",
        "If that is intended, raise the setting that the error names. Else dump the table again, in several "
        "files. Nothing has landed.",
        "Write: `max_file_messages: 200000000` below `sources.orders`.",
    ),
    Explanation(
        "DUMP_UNKNOWN",
        "The dump is neither CSV, nor Parquet, nor a Delta table.",
        "The file has another ending, or the folder has no files of these kinds.",
        "Name a .csv or .parquet file, a folder of such files, or the folder of a Delta table.",
        "Found: orders.xlsx. Do: export it as orders.csv.",
    ),
    Explanation(
        "DUMP_UNREADABLE",
        "The dump cannot be read.",
        "A file is damaged, was not copied completely, or its content does not fit its ending; or a CSV file "
        "is not UTF-8.",
        "Export or copy it again, CSV as UTF-8. Nothing has landed.",
        "Found: a .parquet file that was cut off. Do: copy it again, then repeat `mainstem seed`.",
    ),
    Explanation(
        "FILE_CHANGED",
        "A file changed after its messages had landed, or while it was being read.",
        "A writer appends to it or replaces it; or the landing folder was copied without the times of its "
        "files (`cp` without `-p`, a download, a clone).",
        "If the times alone changed, copy the folder again with `cp -p` or `rsync -a`, or delete the files "
        "whose messages have landed. Else let the writer finish, and rename the file to read it as a new "
        "one. Where the order rests on times, the new name must come behind the old one: of changes of one "
        "time, those of the last name count.",
        "Do: `rsync -a old/landing/ new/landing/`, or `mv landing/orders.log landing/orders-2.log`.",
    ),
    Explanation(
        "FILE_CORRUPT",
        "A gzip file cannot be decompressed to its end.",
        "It was not copied completely, is damaged, or is no gzip file in spite of its name.",
        "Compress a plain file, or give it a name without `.gz` and put an empty file in its place. Replace "
        "a damaged file by the complete one, or by an empty one if its content is lost. Then run again. In "
        "an object store, where Spark does not list empty files, the output of `gzip < /dev/null` stands for "
        "an empty file.",
        "Do: check with `gzip -t FILE`, copy the file again, then `mainstem run`.",
    ),
    Explanation(
        "FILE_CROWDED",
        "A file has more messages than the source allows.",
        "The file was not split, or somebody placed a hostile file in the folder.",
        "If that is intended, raise `max_file_messages` of the source. Else replace the file.",
        "Write: `max_file_messages: 200000000` below `sources.orders`.",
    ),
    Explanation(
        "FILE_INFLATED",
        "A gzip file decompresses to far more than its size.",
        "The data repeats a lot, or somebody placed a hostile file in the folder.",
        "If that is intended, raise `max_gzip_ratio` of the source. Else replace the file.",
        "Write: `max_gzip_ratio: 1000` below `sources.orders`.",
    ),
    Explanation(
        "FILE_SPARSE",
        "A file has a very long stretch of zero bytes.",
        "The machine failed while the file was written, or somebody placed a hostile file in the folder.",
        "Replace it by the complete file, or by an empty one if its content is lost, and run again.",
        "Do: copy the file again, then `mainstem run`.",
    ),
    Explanation(
        "FILE_TOO_LARGE",
        "A file of an object store is larger than Spark can read whole.",
        "Spark reads a file of an object store in one piece.",
        "Mount the store as a folder; or split the file into smaller ones, and put a file with one line feed "
        "(the output of `gzip < /dev/null` if its name ends in `.gz`) in its place, because it was found and "
        "not read.",
        "Do: `split -l 1000000 feed.jsonl feed-`, upload the parts, replace the large file.",
    ),
    Explanation(
        "FILE_UNREADABLE",
        "The operating system refuses to read a file.",
        "This user has no permission, or the disk has a fault.",
        "Make the file readable for this user and run again.",
        "Do: `chmod a+r landing/orders/part-7.jsonl`.",
    ),
    Explanation(
        "FILE_VANISHED",
        "A file was found earlier and is gone before it was read.",
        "Something deletes files from the landing folder before their messages have landed.",
        "Put the file back, or an empty one of the same name if its content is lost, and run again. In an "
        "object store, where Spark does not list empty files, a file with one line feed stands for an empty "
        "one, or the output of `gzip < /dev/null` if its name ends in `.gz`.",
        "Do: `touch landing/orders/part-7.jsonl`, only if the content is lost.",
    ),
    Explanation(
        "KAFKA_OFFSETS_LOST",
        "The broker no longer has messages that have not landed.",
        "Its retention removed them, or the topic was deleted and created again.",
        "Restore the messages. For a new topic of the same name follow KAFKA_TOPIC_RECREATED. Or set "
        "`failOnDataLoss: false` for one run, and load what is missing with a new snapshot under a higher "
        "`epoch`.",
        "Write: `failOnDataLoss: false` below `kafka:`, run once, and remove it again.",
    ),
    Explanation(
        "KAFKA_REFUSED",
        "The broker refuses the user, the connection or the topic.",
        "User, password or certificate is wrong, or the user may not read the topic.",
        "Correct the `kafka.sasl.…` or `kafka.ssl.…` keys, or give the user the right to read the topic.",
        'Write: `kafka.sasl.jaas.config: "${env:KAFKA_JAAS}"`.',
    ),
    Explanation(
        "KAFKA_TIMESTAMP_UNREADABLE",
        "Spark cannot read the time of a Kafka record.",
        "A producer wrote a time later than the year 294247.",
        "Delete the records of the partition up to it with `kafka-delete-records.sh`, run once with "
        "`failOnDataLoss: false`, and load what is missing with a new snapshot under a higher `epoch`.",
        "Do: set `message.timestamp.type=LogAppendTime` for the topic, so that it does not happen again.",
    ),
    Explanation(
        "KAFKA_TOPIC_LEFT_OUT",
        "A source of Kafka has read a topic that its configuration does not name any more.",
        "Its checkpoint has a place in each topic, and Spark cannot tell a topic that was left out from one "
        "that the broker has lost.",
        "Name the topic again. Or let the source begin a new checkpoint: it reads the other topics from their"
        " first message, and leaves out what has landed.",
        "Do: `rm -r lakehouse/_mainstem/bronze/orders`, `touch lakehouse/_mainstem/bronze/orders.reset`.",
    ),
    Explanation(
        "KAFKA_TOPIC_RECREATED",
        "The topic has other messages than those that landed from the same offsets.",
        "The topic was deleted and created again.",
        "Delete the checkpoint, create the empty file `<checkpoint>.reset`, raise `epoch` by one and run.",
        "Write: `epoch: 2` below `sources.crm`.",
    ),
    Explanation(
        "KAFKA_TOPIC_UNKNOWN",
        "The broker does not know a topic.",
        "The name is misspelt, the topic has not been created yet, or it is on another broker.",
        "Correct `topics`, or create the topic.",
        "Found: `topics: [crm.custmer]`. Write: `topics: [crm.customer]`.",
    ),
    Explanation(
        "KAFKA_UNREACHABLE",
        "No Kafka broker answers.",
        "The broker is down, the address is wrong, or a firewall blocks the port. A run tries each server "
        "three times within seconds before it asks for messages.",
        "Start the broker, or correct `bootstrap_servers`, and run again.",
        'Write: `bootstrap_servers: "broker1:9092,broker2:9092"`.',
    ),
    Explanation(
        "KEY_TWICE",
        "Two rows of a dump have the same key.",
        "The dump was taken while the table changed, or `keys` under `tables:` lacks a key column.",
        "Dump the table again, or correct the key: in the feed if that names it, else under `keys`. Nothing "
        "has landed.",
        "Found: 2 rows with order_id=7. Write: `keys: [order_id, line_no]`.",
    ),
    Explanation(
        "LANDING_FOLDER_MISSING",
        "The landing folder of a source does not exist, or is a file.",
        "The path is misspelt, is relative to another folder, or a disk is not mounted.",
        "Create the folder, or correct `files:`.",
        "Found: `files: ./landng`. Write: `files: ./landing`.",
    ),
    Explanation(
        "LANDING_FOLDER_UNREADABLE",
        "The landing folder cannot be listed.",
        "This user may not read it, or Spark names its files in another way than the configuration.",
        "Give the user the right to read it, or write the folder as Spark names it.",
        "Do: `chmod a+rx landing/orders`.",
    ),
    Explanation(
        "LOG_EXPIRED",
        "A table has removed commits from its log before they were read.",
        "Delta keeps the log of a table for 30 days, unless `delta.logRetentionDuration` says otherwise, and "
        "the pipeline, or this part of it, has not read the table for longer. No row is lost by that. On a "
        "local file system a run reads files and messages again by itself; a table of messages that another "
        "job writes may have changed meanwhile.",
        "Delete the checkpoint that the error names, create the empty file `<checkpoint>.reset` and run "
        "again: the whole table is read again, and what has landed, or has an outcome, is left out.",
        "Do: `rm -r CHECKPOINT && touch CHECKPOINT.reset && mainstem run`, with the path from the error.",
    ),
    Explanation(
        "PLAN_OUT_OF_REACH",
        "`mainstem plan` cannot copy a checkpoint to this machine.",
        "The checkpoint is in a store that this machine cannot read as files.",
        "Land the messages first; the plan then says what they would do.",
        "Do: `mainstem run --through bronze`, then `mainstem plan`.",
    ),
    Explanation(
        "SEED_NEEDS_KEY",
        "A table without a key cannot be seeded.",
        "Neither the feed nor the configuration names the key, so changes cannot be matched with rows of the "
        "dump.",
        "Write `keys` for the table under `tables:`.",
        "Write: `{match: shop.order_line, keys: [order_id, line_no]}`.",
    ),
    Explanation(
        "SEED_POSITION",
        "The position of a dump is not one.",
        "The text is misspelt, or belongs to a later epoch of the source.",
        "Write the position's numbers, the most significant first, or a `sequence` of `mainstem status`.",
        "Write: `--position binlog.000003:1547`, `--position 16/B374D848` or `--position 4711`.",
    ),
    Explanation(
        "SOURCE_CHANGED",
        "A source reads another kind of place than its checkpoint: files, Kafka or a table.",
        "The configuration of a source that has landed messages was changed, or names another table.",
        "Give the source another name. Or, where it is the same feed, let it begin a new checkpoint; what has"
        " landed stays.",
        "Do: `rm -r lakehouse/_mainstem/bronze/orders`, `touch lakehouse/_mainstem/bronze/orders.reset`.",
    ),
    Explanation(
        "SOURCE_FAILED",
        "A source failed, and the other sources continued without it.",
        "Its messages made a batch fail, or its place answered with an unexpected error.",
        "Run again. If it fails again, run with `--debug` and report the output. Its messages wait and are "
        "tried in every run, by `--continuous` at least once an hour.",
        "Do: `mainstem run --debug`.",
    ),
    Explanation(
        "SOURCE_NEEDED",
        "The source of the table to seed is not clear.",
        "The configuration has several sources, and not exactly one of them has read such a table.",
        "Name the source with `--source`, and check the name of the table.",
        "Do: `mainstem seed shop.orders --source orders --from orders.csv --position 4711`.",
    ),
    Explanation(
        "TABLE_COLUMN_MISSING",
        "A table of messages has no column for a part of the messages.",
        "Its columns have other names than `value`, `key`, `topic` and so on.",
        "Name the columns under `columns:` of the source.",
        "Write: `columns: {value: payload}` below `sources.crm`.",
    ),
    Explanation(
        "TABLE_REWRITTEN",
        "Rows of a table of messages were changed or deleted, or are gone before they were read.",
        "The job that writes the table, or somebody else, ran UPDATE, MERGE, an overwrite, RESTORE, or a "
        "DELETE of some rows of a file. Such a commit may append rows as well, so that it cannot be passed. "
        "A commit that only removes whole files, as DELETE by partition or TRUNCATE does, stops nothing, "
        "unless VACUUM deletes the files before a run has read them.",
        "Delete the checkpoint that the error names, create the empty file `<checkpoint>.reset` and run "
        "again: the whole table is read as it is now, and what has landed is left out. Rows that were "
        "appended after the last run and deleted before this one are not in it. A row that was changed lands "
        "once more. To keep the table short, partition it, delete whole partitions, and let VACUUM keep "
        "removed files longer than runs are apart.",
        "Do: `rm -r CHECKPOINT && touch CHECKPOINT.reset && mainstem run`, with the path from the error.",
    ),
)
"""In the order of the alphabet."""
