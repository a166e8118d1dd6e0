"""`crawl export`: kept pages as a WARC file, for archives and their tools."""

from datetime import UTC, datetime
from pathlib import Path

import click

from crawl_platform.cli.crawl import Crawl
from crawl_platform.cli.options import home_option
from crawl_platform.cli.output import bytes_text, count_text, json_option, print_json
from crawl_platform.clock import SystemClock
from crawl_platform.errors import ConfigurationError
from crawl_platform.fleet.export import Export, Selection, note_export
from crawl_platform.web.url import canonicalize
from resources.requests import named_host

TIME = click.DateTime(["%Y-%m-%d", "%Y-%m-%dT%H:%M:%S"])


@click.command()
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--host", "hosts", multiple=True, help="Pages of this host (repeatable).")
@click.option("--url", "urls", multiple=True, help="Versions of this page (repeatable).")
@click.option("--since", type=TIME, help="Fetched at this time (UTC) or later.")
@click.option("--until", type=TIME, help="Fetched before this time (UTC).")
@click.option("--restart", is_flag=True, help="Drop what an earlier attempt at FILE has left.")
@click.option("--force", is_flag=True, help="Replace FILE.")
@json_option
@home_option
def export(
    file: Path, hosts: tuple[str, ...], urls: tuple[str, ...], since: datetime | None, until: datetime | None,
    restart: bool, force: bool, as_json: bool, home: Path,
) -> None:  # fmt: skip
    """Write the kept page versions to FILE (name it like pages.warc.gz), in WARC 1.1.

    Response headers are not kept, so pages are resource records: the body as the site meant it, without
    compression, and a metadata record with what is known of the fetch. FILE appears when it is whole; an
    export that was interrupted goes on when it is run again.
    """
    crawl = Crawl.at(home)
    if file.exists() and not force:
        raise ConfigurationError(f"{file} exists: name another file, or replace it with --force")
    if not file.absolute().parent.is_dir():
        raise ConfigurationError(f"{file.absolute().parent} is not a folder")
    selection = Selection(
        tuple(map(named_host, hosts)), tuple(map(_canonical, urls)), _utc(since), _utc(until)
    )
    work = Export(crawl.lake, selection, file.absolute(), crawl.settings.identity.user_agent, SystemClock())
    if restart:
        work.forget()
    note_export(crawl.home, file.absolute())
    try:
        done = work.run(
            lambda pages: None if as_json else click.echo(f"\r{pages:,} pages", nl=False, err=True)
        )
    except KeyboardInterrupt as error:
        raise click.ClickException("interrupted: the same command goes on where it stopped") from error
    if as_json:
        print_json({"file": str(file), "pages": done.pages, "bytes": done.size, "resumed": done.resumed})
        return
    before = f" ({done.resumed:,} of them by an earlier attempt)" if done.resumed else ""
    click.echo(f"\r{count_text(done.pages, 'page')}, {bytes_text(done.size)} in {file}{before}")


def _canonical(url: str) -> str:
    canonical = canonicalize(url)
    if canonical is None:
        raise ConfigurationError(f"not a URL that can be crawled: {url!r}")
    return canonical


def _utc(time: datetime | None) -> datetime | None:
    return None if time is None else time.replace(tzinfo=UTC)
