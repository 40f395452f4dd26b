"""APPLY: from changes to typed, current replica tables.

Gold keeps one Delta table for each source table: the row with the highest sequence for each key, typed once, each cell
exact or null and listed. A batch in order is merged; a change that comes late makes gold fold its key again from
silver; a schema change takes effect at its own position. What cannot be changed in place is rebuilt from silver, which
gives the same table. Each table has a progress of its own: one that fails is parked with the reason, the others go on.
"""
