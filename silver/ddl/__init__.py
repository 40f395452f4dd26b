"""DDL statements of source databases as structured actions. Pure."""
