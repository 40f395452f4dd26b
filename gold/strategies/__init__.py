"""The kinds of gold tables: replica (one row a key), history (one row a version), append (one row a change)."""
