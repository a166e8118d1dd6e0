"""Options that several commands share."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

Command = TypeVar("Command", bound=Callable[..., Any])

DEFAULT_HOME = "crawl-data"


def home_option(command: Command) -> Command:
    """`--home DIR`, or CRAWL_HOME, or ./crawl-data: passed to the command as `home`, a `Path`."""
    return click.option(
        "--home",
        type=click.Path(file_okay=False, path_type=Path),
        envvar="CRAWL_HOME",
        default=DEFAULT_HOME,
        show_default=f"$CRAWL_HOME or ./{DEFAULT_HOME}",
        help="Folder of the crawl.",
    )(command)


class ShowOrCommand(click.Group):
    """A group whose own work, unless one of its commands is named, is that of the command `own`."""

    own = "show"

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not args or (args[0] not in self.commands and args[0] not in ctx.help_option_names):
            args = [self.own, *args]
        return super().parse_args(ctx, args)
