"""QUALITY: show that the replicas are right, and say at once where they are not.

Promise: what a rule, a count or a comparison finds is a row of `ops/quality_results`, with the failing keys named.
Each layer states what it expects as data (`expectations.py`); the rules of a table are measured in one pass over it, and
Great Expectations gives the verdict on what was measured. A table that has not changed since it was judged costs nothing:
its last verdicts stand. Results are written once a run, by the main thread, in one commit.
Nothing here changes bronze, silver or gold.
"""
