"""`crawl purge`: delete what was crawled of a host, a domain or some URLs, on legal request."""

import getpass
import re
import time
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
import msgspec
import pyarrow as pa

from crawl_platform.cli.crawl import Crawl
from crawl_platform.cli.options import home_option
from crawl_platform.cli.output import count_text, json_option, print_json, print_rows
from crawl_platform.clock import SystemClock, as_datetime
from crawl_platform.errors import ConfigurationError
from crawl_platform.fleet.client import FleetClient
from crawl_platform.fleet.export import exported, take_out_of_exports
from crawl_platform.fleet.live import live_stores
from crawl_platform.fleet.messages import PurgeOrder
from crawl_platform.fleet.report import STALE
from crawl_platform.frontier.kv import OrderedKV, prefix_end
from crawl_platform.frontier.records import HostRecord, decode, url_prefix
from crawl_platform.lake import purges
from crawl_platform.lake.purges import NAMES, Purge, condition, expression, is_prefix
from crawl_platform.lake.tables import DECISIONS
from crawl_platform.web.host import matches, shard_of
from crawl_platform.web.url import host_of
from resources.requests import Request, append_requests, find_requests, named_target

CELLS_PATIENCE = 60.0
"""Seconds for cells to land what is in flight (up to `fetch.total_timeout`), commit it and forget."""
NOW_PATIENCE = 300.0
LOOK_EVERY = 0.5


@click.command()
@click.argument("pattern")
@click.option("--yes", is_flag=True, help="Do it; without, only say what would go.")
@click.option("--reason", default="", help="Why; kept with the request. Required with --yes.")
@click.option("--now", is_flag=True, help="Delete from the lake now, not at the next upkeep.")
@json_option
@home_option
def purge(pattern: str, yes: bool, reason: str, now: bool, as_json: bool, home: Path) -> None:
    """Delete what was crawled of PATTERN: a host, *.DOMAIN or the beginning of URLs. Without --yes: a preview.

    Excluded at once and for good; deleted from the cells' state, the exports that are still where they were
    written, and the lake with its past versions: readers then find no version from before the purge. Marts follow
    at their next build. The exclusion and the request keep the name. Killed in the middle, the same command goes on.
    """
    crawl = Crawl.at(home)
    name = named_target(pattern)
    if not yes:
        _preview(_found(crawl, name), as_json)
        if crawl.running_fleet is None:
            click.echo("--yes needs the fleet, and none is running: `crawl up` first", err=True)
        return
    if not reason:
        raise ConfigurationError("say why with --reason: it is kept with the request")
    if crawl.running_fleet is None:
        raise ConfigurationError(
            "a purge needs the fleet, which has to forget, too: start it with `crawl up` "
            "(after `crawl pause` it starts without crawling)"
        )
    done = _carry_out(crawl, name, reason, now)
    print_json(done) if as_json else _tell(done)


# what there is


def _found(crawl: Crawl, name: str) -> dict[str, Any]:
    return {"pattern": name, "rows": _rows(crawl, name), "frontier_urls": _known(crawl, name)}


def _rows(crawl: Crawl, name: str) -> dict[str, int]:
    """Table → rows of the last commit that go."""
    counts = {}
    for table, names in NAMES.items():
        sql = f"SELECT count(*) AS n FROM {table} WHERE {condition(names, '$1')}"
        counts[table] = int(crawl.lake.query(sql, [expression(name)])["n"][0].as_py())
    return {table: count for table, count in counts.items() if count}


def _known(crawl: Crawl, name: str) -> int:
    """URLs that the cells of this machine know."""
    return sum(_known_in(kv, crawl.lake.n_shards, name) for _, kv in live_stores(crawl.home))


def _known_in(kv: OrderedKV, n_shards: int, name: str) -> int:
    if is_prefix(name):
        host = host_of(name)
        prefix = url_prefix(shard_of(host, n_shards), host) + name.encode()
        return sum(1 for _ in kv.scan(prefix, prefix_end(prefix)))
    hosts = kv.scan(b"h", prefix_end(b"h"))
    return sum(decode(value, HostRecord).known for key, value in hosts if matches(name, key[3:].decode()))


def _preview(found: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print_json(found | {"state": "preview"})
        return
    rows = [{"table": table, "rows": f"{count:,}"} for table, count in found["rows"].items()]
    print_rows(rows, {"table": "table", "rows": "rows that go"}, "no row of the lake names it")
    click.echo(f"{found['frontier_urls']:,} URLs known to the cells of this machine go as well")
    click.echo("a preview: nothing was changed (--yes --reason WHY does it)")


# what is done


def _carry_out(crawl: Crawl, name: str, reason: str, now: bool) -> dict[str, Any]:
    """In this order, each step safe to repeat: 1 note the purge, 2 exclude, 3 count and audit, 4 cells, 5 exports,
    6 lake. To count may take long in a large lake: the crawl has stopped before."""
    lake, fleet = crawl.lake, crawl.fleet
    order = next(
        (known for known in purges.purges(lake.root) if known.pattern == name and not known.erased_at), None
    )
    if order is None:
        order = Purge(uuid.uuid4().hex, name, SystemClock().now(), reason)
        purges.note(lake.root, order)
    fleet.exclude(name, request_id=order.request_id, reason=order.reason)
    found = _found(crawl, name)
    _audit(crawl, order, found)
    fleet.purge(PurgeOrder(order.request_id, name, order.asked_at))
    silent = _await_cells(crawl, fleet, order)
    gone = take_out_of_exports(crawl.home, lambda url: re.search(expression(name), url) is not None)
    if now:
        _erase(fleet, lake.root, order)
    state = "erased" if _is_erased(lake.root, order) else "excluded"
    return found | {
        "request_id": order.request_id, "state": state, "cells_that_did_not_answer": silent,
        "exports": {str(path): records for path, records in gone.items()},
        "exports_not_found": [str(path) for path in exported(crawl.home) if path not in gone],
    }  # fmt: skip


def _audit(crawl: Crawl, order: Purge, found: Mapping[str, Any]) -> None:
    """Who asked, and what there was: once, however often the purge is taken up."""
    lake, by, at = crawl.lake, getpass.getuser(), as_datetime(order.asked_at)
    if not find_requests(lake, order.request_id):
        asked = Request(
            order.request_id, order.asked_at, "purge", order.pattern, by, "exchange", order.reason, 1.0
        )
        append_requests(lake, [asked])
    decision_id = f"purge-{order.request_id}"
    if lake.query("SELECT 1 FROM decisions WHERE decision_id = ?", [decision_id]).num_rows:
        return
    row = {
        "decision_id": decision_id, "decided_at": at, "kind": "purge", "subject": order.pattern, "verdict": "purged",
        "reason": order.reason, "propensity": 1.0, "evidence": msgspec.json.encode(found).decode(),
        "input_versions": list(lake.vector(tables=NAMES)[0].items()), "decided_by": by, "date": at.date(),
    }  # fmt: skip
    lake.append("decisions", pa.Table.from_pylist([row], schema=DECISIONS.schema))


def _await_cells(crawl: Crawl, fleet: FleetClient, order: Purge) -> list[str]:
    """Wait until every cell has forgotten, and its rows from before are in the lake; returns those that have not."""
    clock = SystemClock()
    alive = {beat.cell for beat in fleet.heartbeats() if clock.now() - beat.at < STALE}
    until = clock.boottime() + CELLS_PATIENCE
    while True:
        rows = crawl.lake.query(
            "SELECT DISTINCT cell FROM hosts WHERE event = 'purged' AND decision_id = $1", [order.request_id]
        )
        missing = sorted(alive - set(rows["cell"].to_pylist()))
        if not missing or clock.boottime() > until:
            return missing
        time.sleep(LOOK_EVERY)


def _erase(fleet: FleetClient, lake_root: Path, order: Purge) -> None:
    """Until nothing is left: files that wait for their commit are committed within seconds."""
    until = SystemClock().boottime() + NOW_PATIENCE
    while not _is_erased(lake_root, order) and SystemClock().boottime() < until:
        fleet.upkeep(only_purges=True)
        time.sleep(LOOK_EVERY)


def _is_erased(lake_root: Path, order: Purge) -> bool:
    known = next((k for k in purges.purges(lake_root) if k.request_id == order.request_id), None)
    return known is not None and known.erased_at > 0


def _tell(done: Mapping[str, Any]) -> None:
    rows = count_text(sum(done["rows"].values()), "row")
    click.echo(
        f"{done['pattern']} is excluded; {count_text(done['frontier_urls'], 'URL')} forgotten by the cells"
    )
    for path, records in done["exports"].items():
        click.echo(f"{path}: {count_text(records, 'record')} taken out")
    for path in done["exports_not_found"]:
        click.echo(f"{path}: an export that is no longer there; what was copied elsewhere is out of reach")
    for cell in done["cells_that_did_not_answer"]:
        click.echo(
            f"{cell} has not answered: it forgets when it is back, and later rows go at the next upkeep"
        )
    if done["state"] == "erased":
        click.echo(f"{rows} and every past version with them are deleted (purge {done['request_id']})")
    else:
        click.echo(f"{rows} go at the next upkeep (`crawl upkeep`, or this command with --now)")
