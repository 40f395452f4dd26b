"""Silver: from raw messages to one change table, with an outcome for every message.

Silver reads what bronze landed, decodes each message once with the format of its source, pairs the halves of
updates, and appends every outcome of every message of a batch to `silver/changes` in one commit. A message
that cannot be read is a row there too, and in `silver/quarantine` with its bytes; a half that waits for its
other half is in `silver/pending`. Values are exact text; nothing is rounded, guessed or dropped here. A batch
that is run again writes nothing.
"""
