"""What silver adds to the commands: preview, redecode, forget, maintain, verify, expectations."""
