"""The commands that say what Mainstem knows: its formats and its errors."""
