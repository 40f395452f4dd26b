"""What gold adds to the commands: preview, trace, forget, maintain, verify, expectations."""
