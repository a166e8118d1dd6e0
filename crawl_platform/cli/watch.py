"""`crawl frontier watch`: pages that are visited again and again for the links that they bring."""

import uuid
from pathlib import Path
from typing import Any

import click

from crawl_platform.cli.crawl import Crawl
from crawl_platform.cli.options import home_option
from crawl_platform.cli.output import json_option, print_json, print_rows
from crawl_platform.cli.steer import ask, reason_option
from crawl_platform.errors import ConfigurationError
from crawl_platform.fleet.queues import has_stores, watched_pages


@click.command()
@click.argument("urls", nargs=-1)
@click.option(
    "--every", type=click.FloatRange(0, min_open=True), metavar="SECONDS", help="Visit them so often."
)
@click.option("--off", is_flag=True, help="Visit them like any other page again.")
@reason_option
@json_option
@home_option
def watch(
    urls: tuple[str, ...], every: float | None, off: bool, reason: str, as_json: bool, home: Path
) -> None:
    """Watch URLS, like the front page of a news site: each is visited every so many seconds, and new links on it are
    fetched at once. Without URLS, show those that are watched.

    A minute is the least unless `refresh.watch_min` says otherwise, and a host never gets requests closer than its
    delay.
    """
    crawl = Crawl.at(home)
    if not urls:
        _show(crawl, as_json)
        return
    if off == (every is not None):
        raise ConfigurationError("say how often (--every SECONDS), or that it ends (--off)")
    least = crawl.settings.refresh.watch_min
    if every is not None and every < least:
        raise ConfigurationError(f"--every {every:g} is less than refresh.watch_min ({least:g} s)")
    told = []
    for url in urls:
        request_id = uuid.uuid4().hex
        sequence = crawl.fleet.watch(url, every or 0.0, request_id=request_id)
        said = "off" if off else f"every {every:g} s"
        ask(crawl, "watch", url, "exchange", f"{reason}: {said}" if reason else said, request_id)
        told.append({"url": url, "every": every, "sequence": sequence, "request_id": request_id})
    if as_json:
        print_json(told)
        return
    for one in told:
        click.echo(f"{one['url']}: {'not watched any more' if off else f'watched every {every:g} s'}")


def _show(crawl: Crawl, as_json: bool) -> None:
    if not has_stores(crawl.home):
        raise ConfigurationError("no cell has its state on this machine: look where the cells run")
    found: list[dict[str, Any]] = list(watched_pages(crawl.home))
    if as_json:
        print_json(found)
        return
    columns = {"url": "url", "every": "every (s)", "due_at": "next visit", "last_success_at": "last visit"}
    print_rows(found, columns, "no page is watched")
