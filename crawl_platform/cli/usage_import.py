"""`crawl usage import FILE`: what is known outside about the use of pages, into the lake."""

from pathlib import Path
from typing import Any

import click

from crawl_platform.cli.crawl import Crawl
from crawl_platform.cli.options import home_option
from crawl_platform.cli.output import count_text, json_option, print_json
from crawl_platform.clock import SystemClock
from crawl_platform.errors import ConfigurationError
from crawl_platform.value.usage import (
    Fault,
    Used,
    append_usage,
    digest_of,
    format_of,
    is_imported,
    read_usage,
)

SHOWN = 20
"""Lines that are no good and shown; all are counted."""


@click.command(name="import")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--format", "form", type=click.Choice(("csv", "jsonl", "parquet")), help="What FILE is; told by its name."
)
@click.option("--dry-run", is_flag=True, help="Read FILE and say what it holds, and write nothing.")
@json_option
@home_option
def import_usage(file: Path, form: str | None, dry_run: bool, as_json: bool, home: Path) -> None:
    """Import how pages were used: CSV, JSON lines or Parquet with url, retrievals, critical, at.

    Retrievals raise what a page is worth, those of 30 days ago half as much. A page that is called critical is
    never worth less than value.critical_floor; with a host instead of a URL all of its pages. The same file counts
    once. Lines that are no good are told and left out, the others are imported (exit status 1 then).
    """
    crawl, now = Crawl.at(home), SystemClock().now()
    import_id = digest_of(file)
    lines = list(read_usage(file, form or format_of(file), now))
    rows = [line for line in lines if isinstance(line, Used)]
    faults = [line for line in lines if isinstance(line, Fault)]
    known = is_imported(crawl.lake, import_id)
    if not rows and not faults:
        raise ConfigurationError(f"{file} has no lines")
    if rows and not known and not dry_run:
        append_usage(crawl.lake, rows, file.name, import_id, now)
    said = _said(rows, faults) | {
        "file": str(file),
        "import_id": import_id,
        "imported": bool(rows) and not known and not dry_run,
        "imported_before": known,
    }
    _tell(said, faults, dry_run, as_json)
    if faults:
        raise SystemExit(1)


def _said(rows: list[Used], faults: list[Fault]) -> dict[str, Any]:
    return {
        "lines": len(rows) + len(faults),
        "rows": len(rows),
        "pages": len({row.url for row in rows if row.url}),
        "hosts": len({row.host for row in rows}),
        "retrievals": sum(row.retrievals or 0 for row in rows),
        "critical": sum(row.critical is True for row in rows),
        "lines_refused": len(faults),
        "refused": [fault._asdict() for fault in faults[:SHOWN]],
    }


def _tell(said: dict[str, Any], faults: list[Fault], dry_run: bool, as_json: bool) -> None:
    for fault in faults[:SHOWN]:
        click.echo(f"line {fault.line}: {fault.text!r}: {fault.why}", err=True)
    if len(faults) > SHOWN:
        click.echo(f"… and {count_text(len(faults) - SHOWN, 'more line')}", err=True)
    if as_json:
        print_json(said)
        return
    what = f"{count_text(said['rows'], 'row')} of {count_text(said['lines'], 'line')}"
    about = f"{count_text(said['pages'], 'page')} of {count_text(said['hosts'], 'host')}, {said['critical']:,} critical"
    if said["imported_before"]:
        click.echo(f"imported before, nothing was written: {what} ({about})")
    elif dry_run:
        click.echo(f"would import {what} ({about})")
    else:
        click.echo(f"imported {what} ({about})")
