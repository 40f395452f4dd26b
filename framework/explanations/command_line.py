"""Errors of commands, their arguments, SQL queries and calls from Python."""

from framework.explanations.explanation import Explanation

EXPLANATIONS = (
    Explanation(
        "BAD_KAFKA_SETTING",
        "A setting of Kafka is not written as KEY=VALUE, or its key is unknown.",
        "The key, the sign `=` or the value is missing in `--kafka-option`; or the key is misspelt, or is a "
        "setting of Kafka's client without the prefix `kafka.`, which Spark would ignore.",
        "Write `kafka.`, the key of Kafka's client and its value; each setting is an option of its own.",
        "Write: `--kafka-option kafka.security.protocol=SASL_SSL`.",
    ),
    Explanation(
        "BAD_KEY",
        "The key of a row is not written as COLUMN=VALUE, each column once.",
        "The name of the column or the sign `=` is missing, a column is named twice, or none is named.",
        "Write the column and the value, or `--null COLUMN`; a key of several columns is several arguments, "
        "and each row a command of its own.",
        "Found: `mainstem trace shop.orders 17`. Write: `mainstem trace shop.orders id=17`.",
    ),
    Explanation(
        "BAD_LIMIT",
        "The number of rows to print is less than 1.",
        "`--limit` of `mainstem sql`, or `limit` in Python, is zero or negative.",
        "Give a number from 1.",
        "Found: `--limit 0`. Write: `--limit 10`.",
    ),
    Explanation(
        "BAD_TABLE",
        "The name of a table has an empty part or more than three parts.",
        "A dot is missing or doubled.",
        "Write `database.table` or `database.schema.table`, as `mainstem status` shows it.",
        "Found: shop..orders. Write: shop.orders.",
    ),
    Explanation(
        "BAD_TOPIC",
        "The name of a topic has a character that no topic has.",
        "The name is misspelt, or is a regular expression.",
        "Write the name of the topic; `*` stands for any characters, `?` for one.",
        "Write: `mainstem detect --kafka localhost:9092 --topic 'shop.*'`.",
    ),
    Explanation(
        "COLUMN_UNKNOWN",
        "The table has no column of this name.",
        "The column is misspelt, or was never in the feed.",
        "Use one of the columns that the error lists.",
        "Found: `trace shop.orders order=17`. Write: `trace shop.orders order_id=17`.",
    ),
    Explanation(
        "CONFIG_EXISTS",
        "`mainstem init` does not overwrite an existing file.",
        "A configuration is already there.",
        "Name another file with `-c`, or move the old one away.",
        "Do: `mainstem init -c new.yml`.",
    ),
    Explanation(
        "CONFIG_NOT_WRITABLE",
        "`mainstem init` cannot write the configuration.",
        "The folder does not exist, or this user may not write to it.",
        "Name a file in an existing folder that you may write to.",
        "Do: `mkdir conf`, then `mainstem init -c conf/mainstem.yml`.",
    ),
    Explanation(
        "DEMO_FOLDER_NOT_EMPTY",
        "The folder for the demo contains files that are not from an earlier demo.",
        "The demo deletes and rewrites its folder, so it refuses one that is in use.",
        "Name an empty or new folder, or none for a temporary one.",
        "Do: `mainstem demo --folder ./demo`.",
    ),
    Explanation(
        "DEMO_FOLDER_UNUSABLE",
        "The demo cannot write to its folder.",
        "The folder is on a read-only disk, belongs to another user, or is a file.",
        "Name a folder that you may write to, or none for a temporary one.",
        "Do: `mainstem demo --folder /tmp/demo`.",
    ),
    Explanation(
        "FILE_NOT_WRITTEN",
        "The metrics or the sources of dbt cannot be written to this file.",
        "The folder is missing or not writable, or the file exists and Mainstem has not written it.",
        "Name another file with `--file`; Mainstem never overwrites files that are not its own.",
        "Do: `mainstem metrics --file /tmp/mainstem.prom`.",
    ),
    Explanation(
        "FORMATS_DIFFER",
        "`--format` and `--source` name different formats.",
        "The source of the configuration already has a format.",
        "Leave out one of the two options.",
        "Found: `--format canal --source orders`, where `orders` is a Debezium feed.",
    ),
    Explanation(
        "FORMATS_MIXED",
        "One folder contains messages of several formats.",
        "A source has one format, so `mainstem init --from` cannot write a source for this folder.",
        "Move the files of each format into a folder of its own; `mainstem detect` names the format of each.",
        "Do: `mkdir landing/canal landing/debezium`, move the files, then `mainstem init --from landing`.",
    ),
    Explanation(
        "FORMAT_NOT_CLEAR",
        "The format of the messages cannot be determined.",
        "No format reads them, or several formats fit.",
        "Name the format with `--format`; `mainstem detect PATH` shows the evidence.",
        "Do: `mainstem formats --events feed.jsonl --format maxwell`.",
    ),
    Explanation(
        "INTERRUPTED",
        "The command was stopped from the keyboard.",
        "Somebody pressed Ctrl-C, or the process received SIGINT.",
        "Run the command again; nothing is lost or applied twice.",
        "Do: `mainstem run`.",
    ),
    Explanation(
        "KEY_COLUMN_MISSING",
        "A column of the key is not in the data.",
        "`keys` of a table names a column that no row has, a dump lacks a column of the key, or the key has "
        "a column that `schema_policy: ignore` leaves out of the replica.",
        "Correct `keys` under `tables:`, or the columns of the dump; the error lists the existing columns. "
        "For a column that is left out, set another `schema_policy` for the table and run again.",
        "Found: `keys: [orderid]`. Write: `keys: [order_id]`.",
    ),
    Explanation(
        "KEY_NEEDED",
        "`mainstem forget` needs the whole key of a row and nothing else.",
        "A column of the key is missing, or an argument is not a column of the key.",
        "Give all columns of the key; the error names them. Write `--null COLUMN` for one that is null.",
        "Found: `forget shop.line order_id=7`. Write: `forget shop.line order_id=7 line_no=1`.",
    ),
    Explanation(
        "KEY_WAS_CHANGED",
        "The row to forget had other keys, or shares one with another row.",
        "Changes of the key link it with the rows that the error names.",
        "Look at each with `mainstem trace`. If all of them belong to the person, repeat the command with "
        "`--follow`.",
        "Do: `mainstem trace crm.customer id=18`, then `mainstem forget crm.customer id=17 --follow`.",
    ),
    Explanation(
        "NOTHING_RECOGNISED",
        "`mainstem init --from` found no messages that a format reads.",
        "The folder has no files, the messages have another format, or the files need another layout.",
        "`mainstem detect PATH` says why for each line; `mainstem formats` lists the formats.",
        "Do: `mainstem detect ./landing`.",
    ),
    Explanation(
        "NOTHING_TO_FORGET",
        "No change has this key.",
        "A value is misspelt, or the messages have not been read yet, or they are in quarantine and cannot "
        "be decoded.",
        "Write the values as `mainstem trace` shows them, and run before you forget new messages. Look at "
        "the messages in quarantine: their bytes may hold the row.",
        "Do: `mainstem trace crm.customer id=17`.",
    ),
    Explanation(
        "NO_BUNDLE",
        "`init --databricks` writes into the Databricks bundle, and this folder has none.",
        "The command was started in another folder than that of `databricks.yml`.",
        "Go to the folder of a clone of Mainstem, and name your configuration with `-c`.",
        "Do: `cd mainstem && mainstem init --databricks -c ../shop/mainstem.yml`.",
    ),
    Explanation(
        "NO_MARKERS",
        "The file has no place for the table of formats.",
        "The two marker lines are missing.",
        "Write the lines `<!-- formats -->` and `<!-- /formats -->` where the table belongs.",
        "Do: add both lines to formats.md, then `mainstem formats --into formats.md`.",
    ),
    Explanation(
        "NO_MESSAGES",
        "An option for messages is given, and no messages.",
        "`--format`, `--key` and `--source` of `mainstem formats` need `--events`.",
        "Add `--events PATH`.",
        "Do: `mainstem formats --events feed.jsonl --format canal`.",
    ),
    Explanation(
        "NO_SAMPLE",
        "This format has no sample feed.",
        "A format was added without its sample.",
        "Write one or two dozen messages into the file that the error names.",
        "Do: create framework/demo/samples/NAME.jsonl in a clone of the project.",
    ),
    Explanation(
        "NO_SUCH_PATH",
        "The path is neither a file nor a folder.",
        "The path is misspelt, or is relative to another folder.",
        "Name an existing file or folder.",
        "Found: `mainstem detect ./landng`. Write: `mainstem detect ./landing`.",
    ),
    Explanation(
        "OTHER_ROWS_WAIT",
        "Messages of the row to forget also hold other rows that are only in their bytes.",
        "These rows are in quarantine or excluded, so that silver has no values of them. `mainstem forget` "
        "erases the bytes of the messages, and the other rows would be lost.",
        "In quarantine: remove the cause and `mainstem replay`, or `mainstem dismiss` what nobody needs. "
        "Excluded: take `exclude` off, run, and `mainstem rebuild TABLE --from bronze`. Then forget the row "
        "again.",
        "Do: `mainstem replay`, then `mainstem forget crm.customer id=17`.",
    ),
    Explanation(
        "REPORT_NOT_WRITTEN",
        "The report cannot be written to this file.",
        "The folder is missing or not writable, or the file exists and is not a report.",
        "Name another file with `--output`; Mainstem never overwrites files that are not its own.",
        "Do: `mainstem report --output /tmp/report.html`.",
    ),
    Explanation(
        "RETENTION_TOO_SHORT",
        "`mainstem maintain` must not remove such young files.",
        "Readers and rebuilds may still use files of the last days.",
        "Give `--days` the number that the error names, or more.",
        "Found: `--days 0`. Write: `--days 7`.",
    ),
    Explanation(
        "RUN_INCOMPLETE",
        "A run that was started from Python did not apply everything.",
        "A source failed, a table is parked, or a quality rule of severity `error` failed.",
        "Read `errors`, `tables` and `failed_rules` of the result, fix the cause and run again.",
        "Do: `result = mainstem.run(...)`, then print `result.errors`.",
    ),
    Explanation(
        "SECRET_IN_ARGUMENT",
        "A value that may be a secret is written on the command line.",
        "Other users of the machine can read it, and it would be written into the configuration.",
        "Put the value into a variable of the environment, and write a reference in single quotes.",
        "Write: `--kafka-option 'kafka.sasl.jaas.config=${env:KAFKA_LOGIN}'`.",
    ),
    Explanation(
        "SQL_FAILED",
        "The query failed.",
        "A table or column does not exist, types do not fit, or the query names too many tables.",
        "Correct the query; the error has Spark's reason, and the nearest names where it knows them.",
        'Found: "SELECT * FROM shop.ordrs". Write: "SELECT * FROM shop.orders".',
    ),
    Explanation(
        "SQL_NAME_NEEDS_QUOTES",
        "A name with dots must be one quoted name.",
        "The table has a name of three parts, which Spark would read as catalog, schema and table.",
        "Write it as one name in backquotes, as the error shows.",
        "Found: crm.public.customer. Write: `crm.public.customer` in backquotes.",
    ),
    Explanation(
        "SQL_NOT_A_QUERY",
        "`mainstem sql` runs only one query that reads the pipeline's tables.",
        "The text changes something, holds several statements, or reads something else.",
        "Write one SELECT, WITH … SELECT or VALUES on the tables of the pipeline.",
        'Found: "DELETE FROM shop.orders". Use `mainstem forget` or the source database.',
    ),
    Explanation(
        "SQL_TABLE_EMPTY",
        "The table of the query does not exist yet.",
        "Nothing has been written to it, because no run has applied it, or because it is parked.",
        "Run the pipeline first; `mainstem status` names parked tables.",
        "Do: `mainstem run`, then repeat the query.",
    ),
    Explanation(
        "TABLE_AMBIGUOUS",
        "The name stands for several tables.",
        "Several sources have a table of this name; or a part of a name holds a dot: the table `b.c` of the "
        "database `a` is not the table `c` of the database `a.b`; or a query has two tables whose names "
        "differ by case alone.",
        "Use one of the names that the error lists: that in gold, set with `source` and `replica` under "
        "`tables`, or that with backticks.",
        "Found: `mainstem trace shop.orders id=7`. Write: `mainstem trace shard_2.orders id=7`.",
    ),
    Explanation(
        "TABLE_EXCLUDED",
        "The configuration excludes this table.",
        "An entry of `tables` that matches it has `exclude: true`.",
        "Leave the table out of the command. Or remove `exclude`, run, and `mainstem rebuild TABLE --from "
        "bronze`: silver has no rows of what came while the table was excluded.",
        "Found: `match: shop.tmp_*`, `exclude: true`, and `seed shop.tmp_1`.",
    ),
    Explanation(
        "TABLE_OF_UNNAMED_SOURCE",
        "The row to forget may also be in messages of a source that the configuration does not name.",
        "A source was renamed or taken out of the configuration. Its messages and changes stay in the "
        "lakehouse, and only its settings say how they are read.",
        "Name the source again, with its format and settings, and forget once more. Where its files are "
        "gone, `files` may name an empty folder. Afterwards it may be taken out again.",
        "Write: `crm: {format: debezium, files: ./empty}`, then `mainstem forget crm.customer id=17`.",
    ),
    Explanation(
        "TABLE_UNKNOWN",
        "No change of such a table has been read.",
        "The name is misspelt, or its messages have not been read yet.",
        "Use a name from `mainstem status`; the error suggests the nearest one.",
        "Found: `mainstem rebuild shop.order`. Write: `mainstem rebuild shop.orders`.",
    ),
    Explanation(
        "TASK_FAILED",
        "A task of a job ended with an exit code other than 0.",
        "The command failed, or a table is parked or a quality rule failed. The output above has the reason.",
        "Read the output of the task, fix the cause and run again; nothing is lost or applied twice.",
        "Found: exit code 3. Do: `mainstem status`.",
    ),
    Explanation(
        "UNEXPECTED_ERROR",
        "An error that Mainstem does not expect.",
        "A fault in Mainstem, or a failure of the machine, the network or the storage.",
        "Run again. If it fails again, repeat the command with `--debug` and report the whole output.",
        "Do: `mainstem run --debug`.",
    ),
    Explanation(
        "UNKNOWN_CODE",
        "There is no error code of this name.",
        "The code is misspelt, or belongs to another version.",
        "`mainstem explain` without a code lists all codes.",
        "Found: `mainstem explain LEASE_HOLD`. Write: `mainstem explain LEASE_HELD`.",
    ),
    Explanation(
        "UNKNOWN_FORMAT",
        "There is no format of this name.",
        "The name is misspelt.",
        "Use a name from `mainstem formats`; the error suggests the nearest one.",
        "Found: `--sample debezum`. Write: `--sample debezium`.",
    ),
    Explanation(
        "UNKNOWN_LAYER",
        "There is no layer of this name.",
        "`through` of `mainstem.run` in Python is misspelt.",
        "Use bronze, silver, gold or quality.",
        'Found: through="slver". Write: through="silver".',
    ),
    Explanation(
        "UNKNOWN_SOURCE",
        "The configuration has no source of this name.",
        "The name is misspelt, or another configuration is used.",
        "Use a name below `sources:`, and check `-c`.",
        "Found: `--source order`. Write: `--source orders`.",
        former=("SOURCE_UNKNOWN",),
    ),
    Explanation(
        "WRONG_ARGUMENTS",
        "The command line has a command, an option or a value that Mainstem does not know, or lacks one.",
        "A word is misspelt, or an argument is missing or too much.",
        "Write what the error suggests; `mainstem COMMAND --help` shows the options and an example.",
        "Found: option `--throgh`. Write: `mainstem run --through gold`.",
    ),
)
