"""`crawl seed audit` and `crawl seed suggest`: which seed hosts are of no use, and which hosts the seed lacks."""

from collections.abc import Sequence
from pathlib import Path

import click

from crawl_platform.cli.crawl import Crawl
from crawl_platform.cli.options import home_option
from crawl_platform.cli.output import count_text, json_option, print_json
from crawl_platform.quality import seeds
from crawl_platform.quality.seeds import Finding

limit_option = click.option(
    "--limit", type=click.IntRange(1), default=50, show_default=True, help="Findings that are shown."
)


@click.command()
@limit_option
@json_option
@home_option
def audit(limit: int, as_json: bool, home: Path) -> None:
    """Name seed hosts that are of no use: silent, forbidden, moved, failing, parked, mirrored, without text.

    Each with its evidence and what to do; nothing is changed.
    """
    with Crawl.at(home).lake.connect() as connection:
        found = seeds.audit(connection)
    _tell(found, limit, as_json, "nothing is wrong with the seed hosts, as far as they were fetched")


@click.command()
@limit_option
@json_option
@home_option
def suggest(limit: int, as_json: bool, home: Path) -> None:
    """Name hosts that the seed lacks: where seed hosts redirect to or have their canonical pages, their twins with or
    without www., and what many trusted hosts link to.

    Each with its evidence; nothing is changed. What Dagster promotes by itself: `crawl promotions`.
    """
    with Crawl.at(home).lake.connect() as connection:
        found = seeds.suggest(connection, limit)
    _tell(found, limit, as_json, "seed hosts point to no host outside the seed in that way")


def _tell(found: Sequence[Finding], limit: int, as_json: bool, nothing: str) -> None:
    if as_json:
        print_json([finding._asdict() for finding in found])
        return
    if not found:
        click.echo(nothing)
    for finding in found[:limit]:
        click.echo(f"{click.style(finding.host, bold=True)}  {finding.reason}")
        click.echo(f"    {finding.evidence}")
        click.echo(f"    → {finding.advice}")
    if len(found) > limit:
        click.echo(f"… and {count_text(len(found) - limit, 'more host')} (--limit)")
