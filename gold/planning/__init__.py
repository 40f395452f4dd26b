"""Planning a run: the tables that have something new, and a plan for each."""
