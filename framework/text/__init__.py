"""Numbers, times and tables as text for people, and times as numbers. Pure."""
