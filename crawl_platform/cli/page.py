"""`crawl show URL`: the content that the lake keeps of a page."""

import shutil
import sys
import textwrap
from pathlib import Path
from typing import Any

import click

from crawl_platform.cli.crawl import Crawl
from crawl_platform.cli.options import home_option
from crawl_platform.cli.output import bytes_text, json_option, print_json, print_rows, show
from crawl_platform.errors import ConfigurationError
from crawl_platform.fleet.pages import content_of, fetch_of, versions_of
from crawl_platform.web.url import canonicalize

READABLE = 100
"""Characters of a line of text at most, however wide the terminal."""


@click.command("show")
@click.argument("url")
@click.option("--versions", "every", is_flag=True, help="List the versions instead of showing one.")
@click.option("--version", "fetch_id", metavar="FETCH_ID", help="This version instead of the last.")
@click.option("--body", is_flag=True, help="The body alone, as the site sent it but not compressed.")
@click.option(
    "--output", type=click.Path(dir_okay=False, path_type=Path), help="Write the body to this file instead."
)
@json_option
@home_option
def show_page(
    url: str, every: bool, fetch_id: str | None, body: bool, output: Path | None, as_json: bool, home: Path
) -> None:
    """Show the page at URL as it was last kept: its facts and its main text.

    A version is kept when the page's cleaned markup has changed; `crawl explain` tells every fetch.
    """
    crawl = Crawl.at(home)
    versions = versions_of(crawl.lake, canonicalize(url) or url)
    if not versions:
        raise ConfigurationError(f"no version of {url} is kept (`crawl explain` says whether it was fetched)")
    if every:
        print_json(versions) if as_json else _list(versions)
        return
    version = _chosen(versions, fetch_id, url)
    content = content_of(crawl.lake, version)
    if output is not None:
        _write(output, content.body)
        click.echo(f"{bytes_text(len(content.body))} written to {output}")
    elif body:
        sys.stdout.buffer.write(content.body)
    elif as_json:
        facts = {**version, "versions": len(versions), "fetch": fetch_of(crawl.lake, version) or None}
        print_json({**facts, "text": content.text})
    else:
        facts = {**version, **fetch_of(crawl.lake, version), "bytes": len(content.body)}
        _print(facts, len(versions), content.text)


def _chosen(versions: list[dict[str, Any]], fetch_id: str | None, url: str) -> dict[str, Any]:
    for version in versions:
        if fetch_id in (None, version["fetch_id"]):
            return version
    raise ConfigurationError(f"{url} has no version {fetch_id}: `crawl show --versions` lists them")


def _list(versions: list[dict[str, Any]]) -> None:
    columns = {
        "fetched_at": "fetched",
        "fetch_id": "version",
        "stored_bytes": "stored bytes",
        "links": "links",
    }
    print_rows(versions, {**columns, "title": "title"}, "")


def _print(facts: dict[str, Any], versions: int, text: str) -> None:
    click.echo(facts["url"])
    click.echo(f"  title:    {show(facts['title'])}")
    status = f", status {facts['status']} from {facts['address']}" if facts.get("status") else ""
    click.echo(
        f"  fetched:  {show(facts['fetched_at'])}{status}, version {facts['fetch_id']} ({versions} kept)"
    )
    stored = f"{bytes_text(facts['bytes'])}, stored as {bytes_text(facts['stored_bytes'])} {facts['body_encoding']}"
    cut = ", cut at the size cap" if facts["truncated"] else ""
    click.echo(f"  body:     {show(facts['content_type'])}, {show(facts['charset'])}, {stored}{cut}")
    click.echo(f"  links:    {show(facts['links'])}; noindex: {show(facts['noindex'])}")
    if facts["canonical"] not in (None, facts["url"]):
        click.echo(f"  says that it is the same as {facts['canonical']}")
    kept = _not_kept(facts)
    if kept:
        click.echo(f"  kept:     {kept}")
    click.echo("")
    click.echo(_wrapped(text) or "(no main text)")


def _not_kept(facts: dict[str, Any]) -> str:
    """What is not there because the site does not want it."""
    if facts["kept"] == "facts":
        return f"no text and no body: the site refuses its use for {', '.join(facts['refused'])}"
    return "no body: the site asks not to keep a copy (noarchive)" if facts["kept"] == "no_body" else ""


def _wrapped(text: str) -> str:
    """Between words on a terminal; into a pipe lines stay whole, so that they can be searched."""
    if not sys.stdout.isatty():
        return text
    width = min(shutil.get_terminal_size().columns, READABLE)
    return "\n".join(textwrap.fill(line, width) for line in text.splitlines())


def _write(path: Path, body: bytes) -> None:
    """Whole or not at all."""
    draft = path.with_name(f".{path.name}.part")
    try:
        draft.write_bytes(body)
        draft.replace(path)
    except OSError as error:
        raise ConfigurationError(f"{path} can't be written: {error}") from error
    finally:
        draft.unlink(missing_ok=True)
