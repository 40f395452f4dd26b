"""The typer application: commands are declared with `command`, in groups, and import nothing heavy.

A declaration names the function that does the work as `module:function`. The module is imported when the
command runs, so that the help, the completion of a shell and light commands do not wait for Spark.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from importlib.metadata import version
from typing import Annotated, Any, TypeVar

import typer
from typer.core import TyperGroup

from framework.cli.options import Options
from framework.errors import ConfigurationError, suggested

START, RUN, LOOK, REPAIR, UPKEEP = "Start", "Run", "Look", "Repair", "Upkeep"
"""The groups of the help, in their order."""

_Declaration = TypeVar("_Declaration", bound=Callable[..., None])


class CommandGroup(TyperGroup):
    """All commands. An unknown one is answered with the nearest."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command that the arguments name. Raises ConfigurationError WRONG_ARGUMENTS for another name."""
        if args and args[0] not in self.commands:
            raise ConfigurationError(
                "WRONG_ARGUMENTS",
                found=f"no command {args[0]!r}",
                where="mainstem",
                action=suggested(args[0], self.commands),
            )
        return super().resolve_command(ctx, args)


app = typer.Typer(
    cls=CommandGroup,
    name="mainstem",
    help="Change feeds of databases to correct, typed, current Delta tables.",
    epilog="`mainstem COMMAND --help` shows an example of a command."
    " Exit codes: 0 everything was applied; 1 failure; 2 wrong arguments or configuration;"
    " 3 a table is parked or a quality rule is broken.",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["--help", "-h"]},
)


def _print_version(is_asked: bool) -> None:
    if is_asked:
        typer.echo(f"mainstem {version('mainstem')}")
        raise typer.Exit


@app.callback()
def _mainstem(
    _version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, metavar="", help="Print the version."
        ),
    ] = False,
) -> None:
    pass


def command(group: str, run: str, *examples: str) -> Callable[[_Declaration], _Declaration]:
    """Declare a command: the function's parameters are its options, its docstring is its help.

    Args:
        group: The group in the help.
        run: The function that does the work, `module:function`; it receives the options.
        examples: Command lines that the help shows.
    """

    def declare(declaration: _Declaration) -> _Declaration:
        @wraps(declaration)
        def read(**values: Any) -> Options:
            return Options(command=f"framework.cli.commands.{run}", **values)

        shown = "\n\n".join(f"[bold]{example}[/bold]" for example in examples)
        app.command(
            declaration.__name__.replace("_", "-"),
            rich_help_panel=group,
            epilog=f"{'Example' if len(examples) == 1 else 'Examples'}:\n\n{shown}",
        )(read)
        return declaration

    return declare
