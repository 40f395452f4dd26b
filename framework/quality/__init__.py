"""QUALITY: shows that the replicas are right, and reports where they are not.

Promise: what a rule, a count or a comparison finds is a row of `ops/quality_results`, with the failing keys.
Each layer states what it expects as data (`expectations.py`); one pass over a table measures its rules, and
Great Expectations gives the verdict on the measurements. A table that has not changed since it was judged
costs nothing: its last verdicts are still valid. Each run writes its results once, from the main thread, in
one commit. Nothing here changes bronze, silver or gold.
"""
