"""Commands that steer a running crawl: promote, exclude, recrawl, pause, resume.

Each request is a row of `requests` (who asked, when, why) and takes effect through the exchange at once.
"""

import getpass
import uuid
from pathlib import Path

import click

from crawl_platform.admission.stops import EVERYTHING, Word
from crawl_platform.cli.crawl import Crawl
from crawl_platform.cli.options import home_option
from crawl_platform.cli.output import count_text, json_option, print_json
from crawl_platform.clock import SystemClock, as_datetime
from crawl_platform.errors import ConfigurationError, ExchangeError
from crawl_platform.fleet.stops import STOPS_NAME, signal_cells, write_word
from crawl_platform.lake import purges
from crawl_platform.web.host import registrable_domain
from crawl_platform.web.url import canonicalize
from resources.requests import KNOWN_URLS, Request, append_requests, named_host, named_target

reason_option = click.option("--reason", default="", help="Why; kept with the request.")


def ask(
    crawl: Crawl, kind: str, target: str, via: str, reason: str, request_id: str, priority: float = 1.0
) -> None:
    """Append the row of a request."""
    now = SystemClock().now()
    request = Request(request_id, now, kind, target, getpass.getuser(), via, reason, priority)
    append_requests(crawl.lake, [request])


def new_request_id() -> str:
    return uuid.uuid4().hex


@click.command()
@click.argument("host")
@click.option("--now", is_flag=True, help="Promote at once, without Dagster.")
@click.option(
    "--priority",
    type=float,
    default=1.0,
    show_default=True,
    help="Of several requests the highest goes first.",
)
@reason_option
@json_option
@home_option
def promote(host: str, now: bool, priority: float, reason: str, as_json: bool, home: Path) -> None:
    """Ask for HOST to be promoted from the horizon to the seed.

    A sensor of Dagster's carries the request out unless HOST is excluded, and the next ranking writes down where
    HOST stands; --now doesn't wait for Dagster. The request is kept either way.
    """
    crawl = Crawl.at(home)
    name = named_host(host)
    policy = crawl.fleet.policy(name)
    if policy is not None and policy.state == "excluded":
        raise ConfigurationError(f"{name} is excluded")
    if policy is not None and policy.state == "seed" and not policy.most_pages:
        raise ConfigurationError(f"{name} is in the seed already")
    request_id = new_request_id()
    if now:
        urls = known_urls(crawl, name)
        why = reason or "an operator's request"
        crawl.fleet.promote(name, urls, decision_id=request_id, reason=why, most_pages=0)
    ask(crawl, "promote", name, "exchange" if now else "table", reason, request_id, priority)
    if as_json:
        print_json({"request_id": request_id, "host": name, "promoted": now})
    else:
        click.echo(
            f"{name} is promoted"
            if now
            else f"asked for {name}: it is promoted within moments, and the next ranking writes down its evidence"
        )


def known_urls(crawl: Crawl, host: str) -> list[str]:
    """URLs of a horizon host, most linked first; its root if none is known."""
    found = crawl.lake.query(KNOWN_URLS, [host, crawl.settings.orchestration.promotion_urls])
    return found.column(0).to_pylist() or [f"https://{host}/"]


@click.command()
@click.argument("pattern")
@click.option("--lift", is_flag=True, help="Take the exclusion back; a lifted host has to be seeded again.")
@reason_option
@json_option
@home_option
def exclude(pattern: str, lift: bool, reason: str, as_json: bool, home: Path) -> None:
    """Never fetch PATTERN again: a host, *.DOMAIN for a domain and everything below it, or the beginning of URLs.

    In force in every cell within moments; what waits in queues is never claimed. An exclusion beats
    seeds and promotions.
    """
    crawl = Crawl.at(home)
    name = named_target(pattern)
    request_id, kind = new_request_id(), "lift" if lift else "exclude"
    if lift:
        crawl.fleet.lift(name, request_id=request_id, reason=reason)
        purges.forget(crawl.lake.root, name)
    else:
        crawl.fleet.exclude(name, request_id=request_id, reason=reason or "crawl exclude")
    ask(crawl, kind, name, "exchange", reason, request_id)
    done = f"{name} is no longer excluded" if lift else f"{name} is excluded"
    print_json({"request_id": request_id, "pattern": name}) if as_json else click.echo(done)


@click.command()
@click.argument("url")
@reason_option
@json_option
@home_option
def recrawl(url: str, reason: str, as_json: bool, home: Path) -> None:
    """Fetch URL once, now (fastlane): as soon as its host may be asked again.

    The URL's host has to be in the seed. The request's id stands in `fetches.request_id`.
    """
    crawl = Crawl.at(home)
    request_id = new_request_id()
    sequence = crawl.fleet.recrawl(url, request_id=request_id)
    ask(crawl, "recrawl", url, "exchange", reason, request_id)
    if as_json:
        print_json({"request_id": request_id, "url": canonicalize(url), "sequence": sequence})
    else:
        click.echo(f"accepted as {request_id}")


@click.command()
@click.argument("domain", default=EVERYTHING)
@json_option
@home_option
def pause(domain: str, as_json: bool, home: Path) -> None:
    """Stop claiming pages in every cell, or those of all hosts of DOMAIN; what is in flight lands.

    Works with NATS down, and before a fleet starts: cells also look at HOME/stops.json.
    """
    _say_stop(home, domain, True, as_json)


@click.command()
@click.argument("domain", default=EVERYTHING)
@json_option
@home_option
def resume(domain: str, as_json: bool, home: Path) -> None:
    """Go on after a pause: of everything, or of DOMAIN."""
    _say_stop(home, domain, False, as_json)


def _say_stop(home: Path, domain: str, paused: bool, as_json: bool) -> None:
    """By every way that there is. The file comes first: it can't be away."""
    crawl, clock = Crawl.at(home), SystemClock()
    name = registrable_domain(named_host(domain)) if domain != EVERYTHING else EVERYTHING
    word = Word(name, paused, clock.now())
    write_word(crawl.home, word)
    signalled = signal_cells(crawl.home, clock)
    fleet, trouble = crawl.running_fleet, ""
    try:
        if fleet is not None:
            fleet.pause(paused, name, word.at)
    except ExchangeError as error:
        trouble = str(error)
    if as_json:
        told = fleet is not None and not trouble
        print_json({"domain": name, "paused": paused, "at": as_datetime(word.at), "cells_signalled": signalled,
                    "exchange_told": told})  # fmt: skip
        return
    click.echo(f"{f'{name} is ' if name else ''}{'paused' if paused else 'resumed'}")
    if fleet is None:
        click.echo("no fleet is running: the next one starts so")
    if trouble:
        click.echo(
            f"told by {STOPS_NAME} and a signal to {count_text(signalled, 'cell')} only: {trouble}", err=True
        )
