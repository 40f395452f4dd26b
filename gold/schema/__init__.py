"""The schema of a table: its lineage, and the names, types and layout of its columns."""
