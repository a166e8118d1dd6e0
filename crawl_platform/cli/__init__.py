"""The `crawl` command. One file per kind of work; every error that is ours is one line that says what to do."""

import errno

import click

from crawl_platform import __version__
from crawl_platform.cli.demo import demo
from crawl_platform.cli.doctor import doctor
from crawl_platform.cli.explain import explain
from crawl_platform.cli.export import export
from crawl_platform.cli.frontier import frontier
from crawl_platform.cli.identity import identity
from crawl_platform.cli.page import show_page
from crawl_platform.cli.purge import purge
from crawl_platform.cli.run import down, reload, up
from crawl_platform.cli.shards import shards
from crawl_platform.cli.size import size
from crawl_platform.cli.sql import sql_command
from crawl_platform.cli.status import status, top
from crawl_platform.cli.steer import exclude, pause, promote, promotions, recrawl, resume, seed
from crawl_platform.cli.trim import trim
from crawl_platform.cli.upkeep import upkeep
from crawl_platform.cli.usage import usage
from crawl_platform.errors import ConfigurationError, PlatformError


class WrongSetting(click.ClickException):
    exit_code = 2


class CrawlGroup(click.Group):
    """Commands by what they are for; platform errors become one line and an exit status."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for title, commands in SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl(
                    [(command.name or "", command.get_short_help_str(limit=120)) for command in commands],
                    col_max=12,
                )

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


frontier.add_command(trim)
SECTIONS: dict[str, tuple[click.Command, ...]] = {
    "Run": (up, down, reload, upkeep, demo, doctor, identity, size),
    "Steer": (seed, promote, exclude, purge, recrawl, pause, resume),
    "Look": (status, top, explain, show_page, frontier, shards, promotions, sql_command, usage, export),
}
for _command in (command for commands in SECTIONS.values() for command in commands):
    main.add_command(_command)
