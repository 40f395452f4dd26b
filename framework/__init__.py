"""What the layers share: configuration, errors, names, sessions, tables, the command line. Imports no layer."""
