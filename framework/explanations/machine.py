"""Errors of the machine, of Spark's start, and of the lakehouse as a place."""

from framework.explanations.explanation import Explanation

EXPLANATIONS = (
    Explanation(
        "CHECKPOINT_DAMAGED",
        "A file of a checkpoint cannot be read.",
        "The disk was full, the machine failed while it was written, or somebody edited it.",
        "Restore the file from a backup. Or delete the checkpoint, create the empty file "
        "`<checkpoint>.reset` and run again: what has been read is left out then.",
        "Do: `rm -r CHECKPOINT && touch CHECKPOINT.reset && mainstem run`, with the path from the error.",
    ),
    Explanation(
        "DISK_FULL",
        "The disk has no space left for Spark.",
        "The temporary folder is too small for sorting and joining.",
        "Free some space, or set `TMPDIR` to a larger disk.",
        "Do: `TMPDIR=/data/tmp mainstem run`.",
    ),
    Explanation(
        "GREAT_EXPECTATIONS_MISSING",
        "`scan: full` needs Great Expectations, which is not installed.",
        "It is an extra of the installation, and the rest of Mainstem does not need it.",
        "Install it, or write another `scan` below `quality`. The replicas are up to date already.",
        "Do: `pip install 'great-expectations>=1.24,<2'` in the environment of Mainstem.",
    ),
    Explanation(
        "JARS_CHANGED",
        "A Java archive of Delta or Kafka is not the published one.",
        "The download was damaged, or the repository serves another file.",
        "Delete the file and run again. If the error stays, ask who runs the repository.",
        "Do: delete the .jar file that the error names, then `mainstem run`.",
    ),
    Explanation(
        "JARS_UNAVAILABLE",
        "Delta's Java archives are not on this machine and cannot be downloaded.",
        "The first start needs the network, and there is none, or a proxy blocks it.",
        "Connect to the network for the first start, or name a mirror with `spark.jars.ivySettings`. Later "
        "starts need no network.",
        "Do: run `mainstem demo` once on a machine that has the network.",
    ),
    Explanation(
        "JAVA_NOT_FOUND",
        "Spark needs Java, and none is found.",
        "Java is not installed, or `JAVA_HOME` names a folder without `bin/java`.",
        "Install Java 17 or 21, and set `JAVA_HOME` to it.",
        "Do: install Java 17, then `mainstem doctor`.",
    ),
    Explanation(
        "JAVA_TOO_OLD",
        "The Java that is found is too old for Spark.",
        "An older Java is first on the path, or `JAVA_HOME` names one.",
        "Install Java 17 or 21, and set `JAVA_HOME` to it.",
        "Do: `export JAVA_HOME=/usr/lib/jvm/java-17-openjdk`, then `mainstem doctor`.",
    ),
    Explanation(
        "LAKEHOUSE_TAKEN",
        "The lakehouse belongs to another pipeline.",
        "Two configurations with different `pipeline` names use one `lakehouse`, or its name changed; or two "
        "with different `checkpoints` use one catalog and `schema_prefix`, also where a pipeline is deployed "
        "twice.",
        "Give each pipeline a lakehouse of its own. For a renamed pipeline, write the new name into the file "
        "that the error names. If its folder of checkpoints has another place now, copy the whole folder "
        "there.",
        "Found: pipelines `shop` and `crm` with `lakehouse: ./lakehouse`.",
    ),
    Explanation(
        "LEASE_HELD",
        "Another run of this pipeline is at work.",
        "Only one run may write at a time; the error says who holds the lease and since when.",
        "Wait until it ends, or stop that process. The lease is free as soon as the process is gone.",
        "Found: process 4711 on this machine since 02:10. Do: wait, then run again.",
    ),
    Explanation(
        "LEASE_ORPHAN",
        "The Java process of a run that was killed still works on this pipeline.",
        "The Python process ended without stopping its Java process.",
        "End the process that the error names, then run again. It ignores SIGTERM; SIGKILL loses nothing.",
        "Do: `kill -9 4712`, with the number from the error.",
    ),
    Explanation(
        "LEASE_UNAVAILABLE",
        "The file of the lease cannot be opened or locked.",
        "Another user has run the pipeline before, the disk is full or read-only, a link or folder is in "
        "its place, or the file system has no locks.",
        "Follow the advice of the error, which depends on the reason.",
        "Found: permission denied. Do: run as the user who has run this pipeline before.",
    ),
    Explanation(
        "MEMORY_UNAVAILABLE",
        "There is not enough memory to start Spark's driver.",
        "Other processes use the memory, or the configured size is too large.",
        "Free some memory, or set `MAINSTEM_DRIVER_MEMORY` to a smaller size.",
        "Do: `MAINSTEM_DRIVER_MEMORY=1g mainstem run`.",
    ),
    Explanation(
        "NAME_SUBSTITUTED",
        "A name contains `${…}`, which this Spark session replaces.",
        "`spark.sql.variable.substitute` is on for a session that Mainstem did not start.",
        "Set it to false for the cluster or session, and run again.",
        "Do: `spark.conf.set('spark.sql.variable.substitute', 'false')`.",
    ),
    Explanation(
        "NO_WORKSPACE",
        "`doctor --live` tries what only a workspace of Databricks can show, and this is no compute of one.",
        "The command was started on a machine of your own.",
        "Start it in a notebook or as a task of a job. `doctor --databricks` lists the rights anywhere.",
        "Do: `mainstem doctor --databricks`.",
    ),
    Explanation(
        "OLDER_COPY",
        "A table was put back from an older copy than its checkpoint knows.",
        "The backup was made before the last runs. What they wrote to the table is not in it, and the stream "
        "would pass over what comes next.",
        "Put back the newest state of the table. Where there is none, delete the checkpoint that the error "
        "names, create the empty file `<checkpoint>.reset` and run again: what is missing is landed or "
        "decoded again, and the rest is left out. Messages that their source no longer has cannot land "
        "again; of files that are gone, FILE_VANISHED names the first. Behind an older `silver/schemas`, "
        "delete what the error names: all messages are read again.",
        "Do: `rm -r CHECKPOINT && touch CHECKPOINT.reset && mainstem run`, with the path from the error.",
    ),
    Explanation(
        "PORT_UNAVAILABLE",
        "Spark cannot open a port on 127.0.0.1.",
        "All ports that it tries are in use, or the network of the machine is restricted.",
        "Stop other Spark processes, or free some ports.",
        "Do: find other Spark processes with `jps`, stop those that you do not need, and run again.",
    ),
    Explanation(
        "PYSPARK_MISSING",
        "This Python has no Spark.",
        "Mainstem is installed without its extra `local`, which brings Spark for one machine.",
        "Install Mainstem with the extra `local`, or run it where Spark is installed.",
        "Do: `uv tool install '.[local]'` in a clone; README has other ways.",
    ),
    Explanation(
        "SPARK_NOT_STARTED",
        "Spark did not start, for a reason that Mainstem does not know.",
        "The error shows the last line of Spark's log.",
        "Run `mainstem doctor`, and the command again with `--debug` for the whole log.",
        "Do: `mainstem doctor`.",
    ),
    Explanation(
        "USER_WITHOUT_NAME",
        "The user of this process has no name.",
        "Hadoop, which Spark uses, asks the system for the name of the user. In a container that runs as the "
        "number of another user (`--user 1000`), nobody has that number.",
        "Run as a user that /etc/passwd has, or give the container the file of the machine.",
        "Do: add `--volume /etc/passwd:/etc/passwd:ro` to `docker run --user`.",
    ),
)
"""In the order of the alphabet."""
