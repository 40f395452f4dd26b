"""Kafka Connect messages: schema blocks, column types, keys. Pure."""
