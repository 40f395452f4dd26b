"""SQL over a pipeline's tables: replicas, histories, silver, bronze and operations as views, read-only.

`names` maps names to tables, `guard` refuses everything but a query, `query` opens the tables of a query and
runs it, and `result` formats the rows; the command line prints them.
"""
