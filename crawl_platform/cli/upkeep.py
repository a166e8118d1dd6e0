"""`crawl upkeep`: compact, retain, vacuum and sweep now."""

from pathlib import Path

import click
import msgspec

from crawl_platform.cli.crawl import Crawl
from crawl_platform.cli.options import home_option
from crawl_platform.cli.output import bytes_text, count_text, json_option, print_json, print_rows
from crawl_platform.clock import SystemClock
from crawl_platform.fleet.supervisor import is_running
from crawl_platform.fleet.upkeep import Order, upkeep_here
from crawl_platform.lake.upkeep.report import Report


@click.command()
@click.option("--table", "tables", multiple=True, metavar="NAME", help="Only this table; may be repeated.")
@click.option("--dry-run", is_flag=True, help="Say what would be done, change nothing.")
@json_option
@home_option
def upkeep(tables: tuple[str, ...], dry_run: bool, as_json: bool, home: Path) -> None:
    """Look after the lake: compact closed days, let old rows go, delete what nobody can read any more.

    What is kept, and for how long, is the section [retention] of HOME/crawl.toml; a page's current links and content
    are kept whatever their age. While a fleet runs its committer does the work between its rounds. Dagster does the
    same by itself (asset `upkeep`), each night by default.
    """
    report = _look_after(Crawl.at(home), tables, dry_run)
    if as_json:
        print_json(msgspec.to_builtins(report, builtin_types=()))
        return
    _print(report)


def _look_after(crawl: Crawl, tables: tuple[str, ...], dry_run: bool) -> Report:
    """By the committer where there may be one: NATS elsewhere means that the fleet may be elsewhere too."""
    if crawl.settings.fleet.nats_url or is_running(crawl.home):
        return crawl.fleet.upkeep(tables, dry_run=dry_run)
    return upkeep_here(crawl.settings, SystemClock(), Order(tables, dry_run))


def _print(report: Report) -> None:
    rows = [
        {
            "table": done.table,
            "action": done.action,
            "files": f"{done.files_before:,} → {done.files_after:,}" if done.files_before else "",
            "rows": f"-{done.rows_removed:,}" if done.rows_removed else "",
            "freed": bytes_text(done.bytes_freed) if done.bytes_freed else "",
            "detail": done.detail,
        }
        for done in report.done
    ]
    columns = {
        "table": "table",
        "action": "action",
        "files": "files",
        "rows": "rows",
        "freed": "freed",
        "detail": "",
    }
    print_rows(rows, columns, "nothing to do")
    if report.dry_run and rows:
        click.echo("a dry run: nothing was changed")
    if report.left:
        click.echo(f"{count_text(report.left, 'partition')} still due: run it again")
