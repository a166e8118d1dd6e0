"""`crawl seed import FILE`: lists of hosts, of any length and as they are published, into the seed.

How far a file was sent is written down after each chunk (`run/seed-import.json`): the same file with the same options
goes on from there. To send a line twice does no harm.
"""

import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import click
import msgspec

from crawl_platform.cli.crawl import Crawl
from crawl_platform.cli.options import home_option
from crawl_platform.cli.output import count_text, json_option, print_json
from crawl_platform.cli.seed_file import SeedFile
from crawl_platform.errors import ConfigurationError
from crawl_platform.fleet.seeding import Listed

TOLD_EVERY = 2.0
DRAWN_EVERY = 0.2
"""Seconds between two lines of progress, and between two pictures of one line on a terminal."""
SHOWN = 20
"""Refused lines that are shown; all are counted."""
PROGRESS = "seed-import.json"
CLEARED = "\r\x1b[K"
"""Empties the line of a terminal."""


class Progress(msgspec.Struct):
    """How far a file was sent: its digest, what was wanted of it, and the last line that stands in NATS."""

    digest: str
    wanted: list[Any]
    lines: int = 0


@click.command(name="import")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--top", type=click.IntRange(1), metavar="N", help="The first N hosts, by rank or by place.")
@click.option(
    "--min-rank", type=click.IntRange(1), default=1, metavar="R", help="Leave out what stands before rank R."
)
@click.option(
    "--untrusted", is_flag=True, help="They are crawled, and no trust comes from them: what they link to has to be "
    "linked from elsewhere to be promoted.",
)  # fmt: skip
@click.option("--again", is_flag=True, help="From the first line, although a run was cut off later.")
@json_option
@home_option
def import_seeds(
    file: Path, top: int | None, min_rank: int, untrusted: bool, again: bool, as_json: bool, home: Path
) -> None:
    """Add the hosts of FILE to the seed: a list, or a table like rank,domain; plain, .gz or .zip.

    A run that is cut off goes on where it was. Lines that are no good are told and left out, the others are added
    (exit status 1 then). Hosts that are known stay as they are, excluded ones stay excluded.
    """
    crawl = Crawl.at(home)
    seeds = SeedFile(file, top=top, min_rank=min_rank)
    place = crawl.home / "run" / PROGRESS
    progress = Progress(seeds.digest(), [top, min_rank, untrusted])
    if not again:
        progress = _begun(place, progress)
    if progress.lines:
        click.echo(f"goes on after line {progress.lines:,} (--again: from the first)", err=True)
    draw = told_on_a_terminal(seeds) if sys.stderr.isatty() else told_in_lines()

    def told(listed: Listed) -> None:
        progress.lines = listed.lines
        _write(place, progress)
        draw(listed)

    listed = crawl.fleet.seed_list(
        seeds, reason=f"import of {file.name}", told=told, trusted=not untrusted, after=progress.lines
    )
    place.unlink(missing_ok=True)
    if sys.stderr.isatty():
        click.echo(CLEARED, err=True, nl=False)
    _tell(listed, as_json)


def _tell(listed: Listed, as_json: bool) -> None:
    if not listed.lines:
        raise ConfigurationError("the file is empty")
    tell_refused(listed)
    if as_json:
        print_json(said_of(listed))
    else:
        known = listed.hosts - listed.new
        click.echo(
            f"{count_text(listed.new, 'host')} added to the seed, {known:,} known already "
            f"({count_text(listed.lines, 'line')} read)"
        )
    if listed.lines_refused:
        raise SystemExit(1)


def _begun(place: Path, wanted: Progress) -> Progress:
    """How far the same import came before it was cut off."""
    try:
        known = msgspec.json.decode(place.read_bytes(), type=Progress)
    except (FileNotFoundError, msgspec.DecodeError):
        return wanted
    same = (known.digest, known.wanted) == (wanted.digest, wanted.wanted)
    return known if same else wanted


def _write(place: Path, progress: Progress) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    draft = place.with_suffix(".tmp")
    draft.write_bytes(msgspec.json.encode(progress))
    draft.replace(place)


def seed_from(crawl: Crawl, lines: Iterable[str], reason: str) -> Listed:
    """Add what `lines` name to the seed. Progress and refused lines go to standard error."""
    listed = crawl.fleet.seed_list(lines, reason=reason, told=told_in_lines())
    tell_refused(listed)
    return listed


def said_of(listed: Listed) -> dict[str, Any]:
    """What became of a list, for programs."""
    return {
        "hosts": listed.hosts,
        "new": listed.new,
        "lines": listed.lines,
        "lines_refused": listed.lines_refused,
        "refused": [line._asdict() for line in listed.refused],
    }


def tell_refused(listed: Listed) -> None:
    """Which lines of a list were no good, to standard error."""
    for refused in listed.refused[:SHOWN]:
        click.echo(f"line {refused.line}: {refused.text!r} is {refused.why}", err=True)
    if listed.lines_refused > SHOWN:
        click.echo(f"… and {count_text(listed.lines_refused - SHOWN, 'more line')}", err=True)
    if listed.lines_refused:
        click.echo(f"{count_text(listed.lines_refused, 'line')} left out", err=True)


def told_in_lines() -> Callable[[Listed], None]:
    """Says now and then how far a list is."""
    told_at = time.monotonic()

    def tell(listed: Listed) -> None:
        nonlocal told_at
        if time.monotonic() - told_at >= TOLD_EVERY:
            told_at = time.monotonic()
            click.echo(f"{_so_far(listed)} …", err=True)

    return tell


def told_on_a_terminal(seeds: SeedFile) -> Callable[[Listed], None]:
    """The same in one line that is drawn anew."""
    began = drawn_at = time.monotonic()

    def tell(listed: Listed) -> None:
        nonlocal drawn_at
        now = time.monotonic()
        if now - drawn_at >= DRAWN_EVERY:
            drawn_at = now
            rate = listed.hosts / (now - began)
            click.echo(
                f"{CLEARED}{seeds.share_read:4.0%}  {_so_far(listed)}, {rate:,.0f} a second",
                err=True,
                nl=False,
            )

    return tell


def _so_far(listed: Listed) -> str:
    return f"{listed.lines:,} lines read, {count_text(listed.hosts, 'host')} added, {listed.lines_refused:,} refused"
