"""Files as a source of messages: listing them, reading them line by line, and logging what was read."""
