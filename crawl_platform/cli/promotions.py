"""`crawl promotions`: which hosts were promoted, and everything that was decided about one of them."""

from pathlib import Path
from typing import Any

import click

from crawl_platform.cli.crawl import Crawl
from crawl_platform.cli.options import home_option
from crawl_platform.cli.output import json_option, print_json, print_rows, show, versions_text
from crawl_platform.lake.lake import Lake

ROWS = "SELECT * EXCLUDE (date, urls), len(urls) AS urls FROM promotions"
VERDICTS = "SELECT verdict, decided_at, reason FROM probation WHERE host = $1 ORDER BY decided_at"
HELD = """
SELECT decision_id, decided_at, verdict, reason, input_versions FROM decisions
WHERE subject = $1 AND kind IN ('promotion', 'promote') AND verdict <> 'promoted' ORDER BY decided_at
"""
BY_HAND = "SELECT host, happened_at, detail, decision_id FROM hosts WHERE host = $1 AND event = 'promoted'"
RANK = """
SELECT state, position, trust, independent_support, eligible FROM host_ranks WHERE host = $1
"""
COLUMNS = {
    "decided_at": "decided",
    "host": "host",
    "position": "rank",
    "independent_support": "support",
    "linked_by": "linked by",
}


@click.command()
@click.option("--why", metavar="HOST", help="All that was decided about one host, and the evidence.")
@json_option
@home_option
def promotions(why: str | None, as_json: bool, home: Path) -> None:
    """List the promotions with their evidence, or say why HOST was promoted or is held."""
    lake = Crawl.at(home).lake
    if why is not None:
        _tell_one(lake, why, as_json)
        return
    rows = lake.query(f"{ROWS} ORDER BY decided_at DESC, position").to_pylist()
    if as_json:
        print_json([_plain(row) for row in rows])
        return
    for row in rows:
        row["linked_by"] = "a customer's request" if row["requested"] else _some(row["supporters"] or [])
    print_rows(rows, COLUMNS, "nothing has been promoted yet")


def _tell_one(lake: Lake, host: str, as_json: bool) -> None:
    def rows(sql: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = lake.query(sql, [host]).to_pylist()
        return found

    promoted = rows(f"{ROWS} WHERE host = $1 ORDER BY decided_at DESC")
    held, rank = rows(HELD), rows(RANK)
    by_hand = [] if promoted else rows(BY_HAND)
    if as_json:
        print_json([_plain(row) for row in (promoted or by_hand or held)])
        return
    for row in promoted:
        click.echo(f"{host} was promoted at {show(row['decided_at'])}: {row['reason']}")
        click.echo(f"  linked by: {', '.join(row['supporters'] or [])}")
        click.echo(f"  decision {row['decision_id']} from {versions_text(row['input_versions'])}")
    for row in by_hand:
        click.echo(
            f"{host} was promoted at {show(row['happened_at'])} at an operator's word: {row['detail']} "
            "(no ranking was asked)"
        )
    for verdict in rows(VERDICTS):
        became = "passed probation" if verdict["verdict"] == "passed" else "was demoted"
        click.echo(f"{host} {became} at {show(verdict['decided_at'])}: {verdict['reason']}")
    if not promoted and not by_hand:
        click.echo(f"{host} was not promoted")
    for row in held:
        click.echo(f"{host} was {row['verdict']} at {show(row['decided_at'])}: {row['reason']}")
    for row in rank:
        place = f"rank {show(row['position'])} of the horizon" if row["position"] else row["state"]
        support = f"{row['independent_support']} independent supporters"
        click.echo(f"at the last ranking: {place}, trust {row['trust']:.1e}, {support}")


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    return {**row, "input_versions": dict(row["input_versions"])} if "input_versions" in row else row


def _some(hosts: list[str]) -> str:
    """The first two, and that there are more."""
    return ", ".join(hosts[:2]) + (", …" if len(hosts) > 2 else "")
