"""The commands, a module each: `add_parser` declares a command's arguments and `run` does its work.

`framework.cli.parser` gathers them. A command prints through `framework.cli.terminal` alone.
"""
