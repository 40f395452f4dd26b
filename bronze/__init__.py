"""LAND: every message that arrives is a row of `bronze/messages`, once, exactly as it was received.

Nothing is parsed, repaired, filtered or reordered here. A message's bytes and coordinates never change after they have
landed, and the table only grows. A file is taken up once it is complete, and lands in one commit or not at all; a batch
that is run again, after whatever crash, lands nothing twice. What was read and later changes stops its own source with a
name and a way out, and no other. Whether a message makes sense is silver's question: a line that cannot be understood
lands all the same.
"""
