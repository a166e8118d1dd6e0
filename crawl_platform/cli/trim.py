"""`crawl frontier trim`: cut the queues of hosts that have more waiting than will ever be fetched."""

import uuid
from dataclasses import asdict, dataclass
from pathlib import Path

import click

from crawl_platform.admission.rules import HostRules
from crawl_platform.cli.crawl import Crawl
from crawl_platform.cli.options import home_option
from crawl_platform.cli.output import count_text, json_option, print_json, print_rows
from crawl_platform.cli.steer import ask, reason_option
from crawl_platform.errors import ConfigurationError
from crawl_platform.fleet.live import live_stores
from crawl_platform.fleet.queues import has_stores
from crawl_platform.frontier.kv import prefix_end
from crawl_platform.frontier.trim import TrimOrder, preview
from resources.requests import named_host


@dataclass(frozen=True, slots=True)
class Cut:
    """What the order does to one host, as of the preview."""

    host: str
    keep: int
    kept: int
    dropped: int


@click.command()
@click.argument("hosts", nargs=-1)
@click.option(
    "--keep", type=click.IntRange(0), help="Most URLs that may wait; without any bound: its page budget."
)
@click.option("--deeper-than", "deepest", type=click.IntRange(0), help="Drop what lies more clicks away.")
@click.option("--yes", is_flag=True, help="Do it; otherwise it is only shown.")
@reason_option
@json_option
@home_option
def trim(
    hosts: tuple[str, ...],
    keep: int | None,
    deepest: int | None,
    yes: bool,
    reason: str,
    as_json: bool,
    home: Path,
) -> None:
    """Drop what waits at the end of the queues of HOSTS (all, if none is named), and keep it as known.

    Shows per host what would be dropped; with --yes the cells that own them do it. Only URLs that were never
    fetched are dropped, those of least priority first. Found again they are no news; `crawl recrawl` fetches one.
    """
    crawl = Crawl.at(home)
    cuts = _cuts(crawl, {named_host(host) for host in hosts}, keep, deepest)
    if yes:
        _order(crawl, cuts, -1 if deepest is None else deepest, reason)
    if as_json:
        print_json({"done": yes, "hosts": [asdict(cut) for cut in cuts]})
        return
    columns = {"host": "host", "kept": "kept", "dropped": "dropped"}
    print_rows([asdict(cut) for cut in cuts], columns, "nothing to drop")
    if cuts:
        total = count_text(sum(cut.dropped for cut in cuts), "URL")
        click.echo(
            f"the cells drop {total} from their queues"
            if yes
            else f"--yes would drop {total}; nothing was done"
        )


def _cuts(crawl: Crawl, wanted: set[str], keep: int | None, deepest: int | None) -> list[Cut]:
    """Hosts of which something would be dropped, most first."""
    if not has_stores(crawl.home):
        raise ConfigurationError("no cell has its state on this machine: trim where the cells run")
    rules, found, met = HostRules(crawl.settings), [], set()
    for _, kv in live_stores(crawl.home):
        for key, _ in kv.scan(b"h", prefix_end(b"h")):
            shard, host = int.from_bytes(key[1:3], "big"), key[3:].decode()
            if wanted and host not in wanted:
                continue
            met.add(host)
            most = -1 if deepest is not None else rules.of(host).frontier.page_budget
            bound = most if keep is None else keep
            done = preview(kv, shard, host, TrimOrder(bound, -1 if deepest is None else deepest))
            if done.dropped:
                found.append(Cut(host, bound, done.kept, done.dropped))
    if strangers := wanted - met:
        raise ConfigurationError(f"not in the frontier: {', '.join(sorted(strangers))}")
    return sorted(found, key=lambda cut: (-cut.dropped, cut.host))


def _order(crawl: Crawl, cuts: list[Cut], deepest: int, reason: str) -> None:
    for cut in cuts:
        request_id = uuid.uuid4().hex
        crawl.fleet.trim(cut.host, keep=cut.keep, deepest=deepest, request_id=request_id)
        said = f"keep {cut.keep}, none deeper than {deepest} (-1: no bound), {cut.dropped} to drop"
        ask(crawl, "trim", cut.host, "exchange", f"{reason}: {said}" if reason else said, request_id)
