"""Detection of a feed's format: every decoder tries every message, and the results are the evidence. Pure."""
