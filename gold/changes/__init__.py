"""The changes of a table as effects on keys, and the newest state of each key."""
