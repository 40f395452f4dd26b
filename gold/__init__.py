"""APPLY: from changes to typed, current replica tables.

Gold keeps one Delta table for each source table: the row with the highest sequence for each key, typed
once, each cell exact, or null and listed. A batch in order is merged. For a late change, gold folds its key
again from silver. A schema change takes effect at its own position. A table that cannot be changed in place
is rebuilt from silver, with the same rows. Each table has its own progress: one that fails is parked with
the reason, and the others continue.
"""
