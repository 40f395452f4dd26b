"""The Spark session: its start, its jars, its settings."""
