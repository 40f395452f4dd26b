"""Runs of a pipeline: sessions, the contract of a layer, checks, alerts and logs."""
