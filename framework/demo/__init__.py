"""The feeds of `mainstem demo` and `mainstem formats --sample`."""
