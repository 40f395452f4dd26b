"""NORMALIZE: from raw messages to one change table, each message accounted for.

Silver reads what bronze landed, decodes each message once by its source's format, pairs the halves of updates, and
appends every fate of every message of a batch to `silver/changes` in one commit. A message that cannot be read is a
row there too, and in `silver/quarantine` with its bytes; a half that waits for its partner is in `silver/pending`.
Values are exact text; nothing is rounded, guessed or dropped here. A batch that is run again writes nothing.
"""
