"""Writing a table: merged, rebuilt or appended; and its cells that do not fit their types."""
