"""What the layers share: configuration, errors, names, sessions, tables, the command line.

It imports no layer.
"""
