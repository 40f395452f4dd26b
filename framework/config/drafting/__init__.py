"""Drafts of a configuration, from folders of messages or topics of a broker."""
