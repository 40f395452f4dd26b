"""The configuration, `mainstem.yml`: its model, the reading of the file, and its errors."""
