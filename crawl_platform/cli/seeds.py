"""Seed lists on their way to the fleet: what is told while a long one is read, and which lines were no good."""

import time
from collections.abc import Iterable

import click

from crawl_platform.cli.crawl import Crawl
from crawl_platform.cli.output import count_text
from crawl_platform.fleet.seeding import Listed

TOLD_EVERY = 2.0
SHOWN = 20
"""Refused lines that are shown; all are counted."""


def seed_from(crawl: Crawl, lines: Iterable[str], reason: str) -> Listed:
    """Add what `lines` name to the seed. Progress and refused lines go to standard error."""
    listed = crawl.fleet.seed_list(lines, reason=reason, told=_Progress())
    for refused in listed.refused[:SHOWN]:
        click.echo(f"line {refused.line}: {refused.text!r} is {refused.why}", err=True)
    if listed.lines_refused > SHOWN:
        click.echo(f"… and {count_text(listed.lines_refused - SHOWN, 'more line')}", err=True)
    if listed.lines_refused:
        click.echo(f"{count_text(listed.lines_refused, 'line')} left out", err=True)
    return listed


class _Progress:
    """Says how far a list is, if it takes long."""

    def __init__(self) -> None:
        self._told_at = time.monotonic()

    def __call__(self, listed: Listed) -> None:
        if time.monotonic() - self._told_at >= TOLD_EVERY:
            self._told_at = time.monotonic()
            click.echo(f"{listed.lines:,} lines read, {count_text(listed.hosts, 'host')} added …", err=True)
