"""The work of the commands, a module each; `framework.cli.groups` declares their options.

`framework.cli.parser` imports the module of the command that runs. A command prints through
`framework.cli.terminal` alone.
"""
