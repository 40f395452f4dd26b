"""Envelopes that several formats share. Pure."""
