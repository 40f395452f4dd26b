"""The tables and small files of a lakehouse, and its lease."""
