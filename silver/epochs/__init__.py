"""The epochs of a source: where each begins, and how a reset of positions shows."""
