"""SQL over a pipeline's tables: replicas, histories, silver, bronze and operations as views, read-only.

`names` says how tables are called, `query` opens those that a query names and answers it, `answer` holds what came of
it, `command` prints it.
"""
