"""From decoded messages to rows of the change table: ids, pairs of halves, duplicates, order."""
