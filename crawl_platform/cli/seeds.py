"""`crawl seed`: the hosts that are crawled. Added, imported from lists, removed, audited, and which others to add."""

from pathlib import Path
from typing import Any, TextIO

import click

from crawl_platform.admission.rules import HostRules
from crawl_platform.cli.crawl import Crawl
from crawl_platform.cli.options import ShowOrCommand, home_option
from crawl_platform.cli.output import count_text, json_option, print_json, print_rows
from crawl_platform.cli.seed_audit import audit, suggest
from crawl_platform.cli.seed_import import import_seeds, said_of, seed_from
from crawl_platform.cli.steer import ask, new_request_id, reason_option
from crawl_platform.clock import as_datetime
from crawl_platform.errors import ConfigurationError
from crawl_platform.fleet.seeding import crawlable
from crawl_platform.web.url import host_of
from resources.requests import named_host


class SeedGroup(ShowOrCommand):
    own = "add"


@click.command(cls=SeedGroup)
def seed() -> None:
    """Add hosts to the trusted seed (`crawl seed HOST …`), or list it (`crawl seed`).

    \b
    crawl seed example.org https://example.net/docs/     hosts or URLs (`crawl seed add --help`)
    crawl seed --file LIST                               one host or URL a line
    crawl seed import top-1m.csv.gz --top 10000          lists as they are published
    """


for command in (import_seeds, audit, suggest):
    seed.add_command(command)


@seed.command("add")
@click.argument("urls", nargs=-1)
@click.option(
    "--file",
    "file",
    type=click.File(encoding="utf-8", errors="replace"),
    help="One host or URL a line, # starts a comment; - reads standard input.",
)
@click.option(
    "--sitemap", "sitemaps", multiple=True, metavar="URL", help="Read this sitemap of its host, too."
)
@json_option
@home_option
def add(
    urls: tuple[str, ...], file: TextIO | None, sitemaps: tuple[str, ...], as_json: bool, home: Path
) -> None:
    """Add hosts to the trusted seed, or list the seed.

    URLS are hosts (then https://HOST/ is the first page) or URLs. Without any: the list. The host of a
    --sitemap enters the seed with it. A --file may be as long as it likes: lines that are no good are told and left
    out, the others are added (exit status 1 then).
    """
    crawl = Crawl.at(home)
    if urls and urls[0] in seed.commands:
        raise ConfigurationError(f"write `crawl seed {urls[0]}` before its options")
    if urls or sitemaps:
        count = crawl.fleet.seed(urls, sitemaps=sitemaps, reason="crawl seed")
        print_json({"hosts": count}) if as_json else click.echo(
            f"{count_text(count, 'host')} added to the seed"
        )
        _warn_of_scopes(crawl, urls)
    if file is not None:
        _add_list(crawl, file, as_json)
    if not (urls or sitemaps or file is not None):
        _list(crawl, as_json)


def _warn_of_scopes(crawl: Crawl, urls: tuple[str, ...]) -> None:
    """A first page that its host's scope leaves outside is never fetched."""
    rules = HostRules(crawl.settings)
    for url in filter(None, map(crawlable, urls)):
        if why := rules.scope(host_of(url)).in_words(url, 0):
            click.echo(f"{url} is not fetched, it is outside the scope of its host: {why}", err=True)


def _list(crawl: Crawl, as_json: bool) -> None:
    policies = sorted(crawl.fleet.hosts().values(), key=lambda p: (p.state, not p.trusted, p.name))
    rows = [
        {
            "host": p.name,
            "state": p.state,
            "trusted": p.trusted,
            "since": as_datetime(p.since),
            "reason": p.reason,
        }
        for p in policies
    ]
    if as_json:
        print_json(rows)
    else:
        columns = {"host": "host", "state": "state", "trusted": "trusted", "since": "since", "reason": "why"}
        print_rows(rows, columns, "the seed is empty")


def _add_list(crawl: Crawl, file: TextIO, as_json: bool) -> None:
    listed = seed_from(crawl, file, "crawl seed")
    if as_json:
        print_json(said_of(listed))
    else:
        click.echo(
            f"{count_text(listed.hosts, 'host')} of {count_text(listed.lines, 'line')} added to the seed"
        )
    if listed.lines_refused:
        raise SystemExit(1)


@seed.command("remove")
@click.argument("hosts", nargs=-1, required=True)
@reason_option
@json_option
@home_option
def remove(hosts: tuple[str, ...], reason: str, as_json: bool, home: Path) -> None:
    """Take HOSTS out of the seed: they are fetched no more, and stand on the horizon with all that is known of them.

    None of them is promoted by its rank again: `crawl seed HOST` or `crawl promote HOST` takes it back in. A host of
    the horizon is kept from being promoted in the same way. To never fetch a host whoever asks: `crawl exclude`.
    """
    crawl, fleet = Crawl.at(home), Crawl.at(home).fleet
    told: list[dict[str, Any]] = []
    for host in map(named_host, hosts):
        request_id = new_request_id()
        was = fleet.remove(host, request_id=request_id, reason=reason or "crawl seed remove")
        ask(crawl, "remove", host, "exchange", reason, request_id)
        told.append({"host": host, "was": was, "request_id": request_id})
    if as_json:
        print_json(told)
        return
    for one in told:
        held = "is not promoted by its rank"
        click.echo(
            f"{one['host']} has left the seed and {held}"
            if one["was"] == "seed"
            else f"{one['host']} {held} (it was not in the seed: {one['was']})"
        )
