"""Debezium's envelope: rows, the `source` block, schema changes. Pure."""
