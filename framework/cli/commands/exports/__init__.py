"""Commands that write the state of a pipeline for other tools."""
