"""Lands every message that arrives as one row of `bronze/messages`, exactly as it was received.

Bronze does not parse, repair, filter or reorder messages. The bytes and coordinates of a landed message never
change (only `forget` empties them), and the table only grows. A file is read once it is complete, and it
lands in one commit or not at all. A batch that is repeated after a crash lands nothing twice. When data that
was already read changes, its source stops with an error that names the data and what to do; the other sources
continue. Silver decides whether a message makes sense: bronze also lands lines that nobody can parse.
"""
