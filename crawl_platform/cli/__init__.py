"""The `crawl` command. One file per kind of work; every error that is ours is one line that says what to do."""

import errno
from importlib import import_module

import click

from crawl_platform import __version__
from crawl_platform.errors import ConfigurationError, PlatformError

SECTIONS = {
    "Run": {
        "up": "run:up", "down": "run:down", "reload": "run:reload", "upkeep": "upkeep:upkeep", "demo": "demo:demo",
        "doctor": "doctor:doctor", "identity": "identity:identity", "size": "size:size",
    },
    "Steer": {
        "seed": "seeds:seed", "promote": "steer:promote", "exclude": "steer:exclude", "purge": "purge:purge",
        "recrawl": "steer:recrawl", "pause": "steer:pause", "resume": "steer:resume", "topics": "topics:topics",
    },
    "Look": {
        "status": "status:status", "top": "status:top", "explain": "explain:explain", "show": "page:show_page",
        "frontier": "frontier:frontier", "shards": "shards:shards", "promotions": "promotions:promotions",
        "sql": "sql:sql_command", "usage": "usage:usage", "export": "export:export",
    },
}  # fmt: skip
"""Command → its module and name there. A module is imported when its command is asked for: all of them take a
second and more, most of it for what `crawl up` needs and `crawl sql` doesn't."""
PLACES = {name: place for commands in SECTIONS.values() for name, place in commands.items()}


class WrongSetting(click.ClickException):
    exit_code = 2


class CrawlGroup(click.Group):
    """Commands by what they are for; platform errors become one line and an exit status."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(PLACES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in PLACES:
            return None
        module, name = PLACES[cmd_name].split(":")
        command: click.Command = getattr(import_module(f"{__name__}.{module}"), name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for title, commands in SECTIONS.items():
            with formatter.section(title):
                known = [(name, self.get_command(ctx, name)) for name in commands]
                rows = [(name, command.get_short_help_str(limit=120)) for name, command in known if command]
                formatter.write_dl(rows, col_max=12)

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except ConfigurationError as error:
            raise WrongSetting(str(error)) from error
        except PlatformError as error:
            raise click.ClickException(str(error)) from error
        except OSError as error:
            if (
                error.filename is None or error.errno == errno.EPIPE
            ):  # a bug of ours, or a reader that has left
                raise
            raise click.ClickException(f"{error.filename}: {error.strerror}") from error


@click.group(
    cls=CrawlGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}
)
@click.version_option(__version__, prog_name="crawl")
def main() -> None:
    """Run, see, query and steer a polite web crawl.

    \b
    First steps:
      crawl demo                                   the whole loop on a synthetic web
      crawl up --seeds FILE --contact MAIL         crawl the real web
      crawl status, crawl top, crawl sql           see what it does
      crawl explain URL                            why (not) crawled yet, and what comes next

    \b
    Completion of commands and options in this shell (zsh, fish: zsh_source, fish_source):
      eval "$(_CRAWL_COMPLETE=bash_source crawl)"
    """
