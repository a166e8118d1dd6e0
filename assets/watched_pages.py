"""Group `content`: the pages that are watched since their revisits keep bringing links that nobody had shown before.

How often is decided in `crawl_platform/scheduling/watching.py`. Like values, intervals are told to the fleet before
the table is written, and only what has changed: a run that dies between the two tells the same again, and a repeated
run tells nothing. What an operator has said of a page (`crawl frontier watch`) stands.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import dagster as dg
import pyarrow as pa

from assets.plots import markdown_table
from assets.promotion_decision import decision_id
from crawl_platform.clock import Clock, as_datetime
from crawl_platform.errors import ConfigurationError
from crawl_platform.fetch.outcome import DISPOSITIONS
from crawl_platform.fleet.client import FleetClient
from crawl_platform.lake.tables import WATCHED_PAGES
from crawl_platform.quality.measure import SUCCESSES
from crawl_platform.scheduling.watching import PER_HOST, SHARE, Choice, Source, choose, least_interval
from crawl_platform.settings import Settings
from crawl_platform.web.url import canonicalize
from resources.fleet import FleetResource
from resources.lake import LakeResource, Reading, version_metadata

INPUTS = ("fetches", "links", "hosts", "fleet_stats", "requests", "near_duplicates")
LOOK_BACK = timedelta(days=14)
"""Visits before that say little of what a page brings now."""
REVISITS = 3
FRUITFUL = 2
"""A page keeps bringing links if so many of its revisits did: one is chance, or a new design."""
ROWS_PER_HOST = 5
MOST_ROWS = 100_000
MOST_TOLD = 500
"""Pages told of by one run, 10 ms each; the others follow with the next."""
SHOWN = 15
SHOWN_COLUMNS = ("page", "links a day", "why")

_LEFT = ", ".join(f"'{o}'" for o, d in DISPOSITIONS.items() if d in ("gone", "refused", "redirect"))

SOURCES = f"""
WITH seed AS (SELECT host FROM hosts_now WHERE state = 'seed'),
visit AS (
    SELECT host, url, fetch_id, link_set, started_at, outcome,
        (epoch(started_at) - epoch(previous_success_at)) / 86400 AS days
    FROM fetches SEMI JOIN seed USING (host)
    WHERE kind = 'page' AND date >= CAST($since AS DATE) AND started_at > $since
        AND previous_success_at IS NOT NULL
), page AS (
    SELECT host, url, count(*) FILTER (outcome IN {SUCCESSES}) AS revisits,
        sum(days) FILTER (outcome IN {SUCCESSES}) AS days
    FROM visit GROUP BY host, url
    HAVING revisits >= {REVISITS} AND count(*) FILTER (link_set = fetch_id) >= {FRUITFUL}
        AND arg_max(outcome, started_at) NOT IN ({_LEFT})
), candidate AS (
    SELECT DISTINCT l.dst_url AS url FROM links l JOIN visit v USING (fetch_id) SEMI JOIN page p ON p.url = v.url
    WHERE l.dst_host IN (SELECT host FROM seed) AND NOT coalesce(l.nofollow, false)
        AND coalesce(l.position, '') <> 'comments'
), shown AS (
    SELECT l.dst_url AS url, arg_min(l.fetch_id, row(l.seen_at, l.fetch_id)) AS fetch_id
    FROM links l SEMI JOIN candidate c ON c.url = l.dst_url GROUP BY l.dst_url
), tried AS (
    SELECT f.url, arg_max(f.outcome, f.started_at) IN {SUCCESSES} AS well
    FROM fetches f SEMI JOIN shown s ON s.url = f.url WHERE f.kind = 'page' GROUP BY f.url
), brought AS (
    SELECT v.url, count(*) AS new_links, count(DISTINCT v.fetch_id) AS fruitful, count(t.url) AS read,
        count(*) FILTER (t.well AND d.url IS NULL) AS good
    FROM shown s JOIN visit v USING (fetch_id) LEFT JOIN tried t ON t.url = s.url
    LEFT JOIN (SELECT DISTINCT url FROM near_duplicates WHERE NOT is_representative) d ON d.url = s.url
    GROUP BY v.url
)
SELECT p.url, p.host, p.revisits, b.fruitful, p.days, b.new_links, b.read, b.good,
    b.new_links * b.good / b.read / p.days AS rate, coalesce(h.delay, $delay) AS delay
FROM page p JOIN brought b USING (url) JOIN hosts_now h USING (host)
WHERE b.fruitful >= {FRUITFUL} AND b.good > 0
QUALIFY row_number() OVER (PARTITION BY p.host ORDER BY rate DESC, p.url) <= {ROWS_PER_HOST}
ORDER BY rate DESC, p.url LIMIT {MOST_ROWS}
"""
"""Pages that keep bringing links of which no link set before spoke. A page's first visit says nothing: all that it
shows is seen for the first time. New links count as far as those that were read since turned out to be pages of their
own, so that a page which makes up an address for each visitor brings nothing."""

FETCHED = """
SELECT sum(fetches)::DOUBLE AS fetches, epoch(max(reported_at)) - min(epoch(reported_at) - seconds) AS seconds
FROM fleet_stats WHERE reported_at > (SELECT max(reported_at) FROM fleet_stats) - INTERVAL 1 DAY
"""
LAST_FETCH = "SELECT max(started_at) AS at FROM fetches"
OPERATORS = "SELECT DISTINCT target FROM requests WHERE kind = 'watch'"
BEFORE = "SELECT * FROM watched_pages WHERE told IS NOT NULL ORDER BY url"
SEED = "SELECT host FROM hosts_now WHERE state = 'seed'"


@dg.asset(
    deps=list(INPUTS),
    group_name="content",
    owners=["team:crawl"],
    kinds={"delta", "python"},
    freshness_policy=dg.FreshnessPolicy.time_window(
        fail_window=timedelta(days=3), warn_window=timedelta(hours=30)
    ),
    check_specs=[
        dg.AssetCheckSpec(
            "visits_are_affordable",
            asset="watched_pages",
            blocking=True,
            description=f"Visits of watched pages are at most {SHARE:.0%} of the fleet's fetches, and no host has more "
            f"than {PER_HOST} such pages.",
        ),
        dg.AssetCheckSpec(
            "operators_have_the_last_word",
            asset="watched_pages",
            blocking=True,
            description="Nothing is decided of a page of which an operator has said whether it is watched.",
        ),
    ],
)
def watched_pages(
    lake: LakeResource,
    fleet: FleetResource,
    crawl_settings: dg.ResourceParam[Settings],
    clock: dg.ResourceParam[Clock],
) -> dg.MaterializeResult:  # type: ignore[type-arg]
    """One row: a page whose revisits keep bringing new links, how many, and how often it is visited for them."""
    store = lake.open()
    with lake.read(*INPUTS, also=("watched_pages",)) as reading:
        plan = decide(reading, crawl_settings, as_datetime(clock.now()))
    checks = [_affordable(plan), _operators_first(plan)]
    if all(check.passed for check in checks):
        told = tell(fleet.client(), plan, reading.inputs)
        rows = [row for row in plan.rows if row["told"] is not None or not row["lost"]]
        store.overwrite("watched_pages", _table(rows), reading.inputs)
    else:
        told, rows = 0, []
    version = store.version("watched_pages")
    return dg.MaterializeResult(
        metadata={
            **version_metadata(store, "watched_pages", version, reading.inputs),
            "watched": sum(row["every"] is not None for row in rows),
            "visits_per_second": plan.visits,
            "fetches_per_second": plan.fetch_rate,
            "pages_told_of": told,
            "pages_waiting": len(plan.news),
            "sources": markdown_table(
                SHOWN_COLUMNS, [[row["url"], f"{row['rate']:.3g}", row["reason"]] for row in rows[:SHOWN]]
            ),
        },
        data_version=dg.DataVersion(str(version)),
        check_results=checks,
    )


@dataclass
class Plan:
    """Rows of `watched_pages`, and `lost`: it has no row once the fleet has heard that it is not watched any more."""

    rows: list[dict[str, Any]]
    fetch_rate: float
    operators: set[str] = field(default_factory=set)

    @property
    def visits(self) -> float:
        """Visits of watched pages per second."""
        return float(sum(1 / row["every"] for row in self.rows if row["every"]))

    @property
    def news(self) -> list[dict[str, Any]]:
        """What the fleet has to hear: what ends first."""
        changed = [row for row in self.rows if row["tell"] and row["every"] != row["told"]]
        return sorted(changed, key=lambda row: (row["every"] is not None, row["every"] or 0.0, row["url"]))


def decide(reading: Reading, settings: Settings, now: datetime) -> Plan:
    """What becomes of each page that keeps bringing links, and of those that are watched."""
    operators = {canonicalize(row["target"]) or "" for row in reading.rows(OPERATORS)}
    before = {row["url"]: row for row in reading.rows(BEFORE) if row["url"] not in operators}
    seed = {row["host"] for row in reading.rows(SEED)} if before else set()
    found = _sources(reading, settings)
    sources = [
        Source(
            row["url"],
            row["host"],
            row["rate"],
            least_interval(settings.refresh.watch_min, row["delay"]),
            before.get(row["url"], {}).get("told"),
        )
        for row in found
        if row["url"] not in operators
    ]
    fetch_rate = _fetch_rate(reading)
    choices = choose(sources, fetch_rate)
    by_hand = Choice(None, "left to the operator who has said whether it is watched")
    rows = []
    for row in found:
        every, why = choices.get(row["url"], by_hand)
        told = before.get(row["url"], {}).get("told")
        known = {"every": every, "told": told, "reason": f"{_evidence(row)}: {why}"}
        rows.append(row | known | {"lost": False, "tell": row["url"] in choices, "computed_at": now})
    lost = [row for url, row in before.items() if url not in choices]
    return Plan([*rows, *(_lost(row, seed, now) for row in lost)], fetch_rate, operators)


def _sources(reading: Reading, settings: Settings) -> list[dict[str, Any]]:
    last = reading.rows(LAST_FETCH)[0]["at"]
    if last is None:
        return []
    given = {"since": last - LOOK_BACK, "delay": settings.politeness.host_delay}
    rows: list[dict[str, Any]] = reading.connection.execute(SOURCES, given).to_arrow_table().to_pylist()
    return rows


def _fetch_rate(reading: Reading) -> float:
    row = reading.rows(FETCHED)[0]
    return row["fetches"] / row["seconds"] if row["seconds"] else 0.0


def _evidence(row: dict[str, Any]) -> str:
    return (
        f"{row['new_links']} new links in {row['fruitful']} of {row['revisits']} revisits over {row['days']:.3g} days, "
        f"{row['good']} of the {row['read']} that were read are pages of their own"
    )


def _lost(row: dict[str, Any], seed: set[str], now: datetime) -> dict[str, Any]:
    """A page that was watched and is not among the sources any more."""
    here = row["host"] in seed
    reason = "it does not bring new links any more" if here else "its host is not in the seed"
    return row | {
        "every": None,
        "reason": reason,
        "rate": 0.0,
        "lost": True,
        "tell": here,
        "computed_at": now,
    }


def tell(client: FleetClient, plan: Plan, inputs: dict[str, int]) -> int:
    """Have the fleet visit pages as decided; returns how many it was told of. Their rows say what it knows."""
    told = 0
    for row in plan.news[:MOST_TOLD]:
        request_id = decision_id(f"{row['url']}|{row['every']}", inputs, "watch")
        try:
            client.watch(row["url"], row["every"] or 0.0, request_id=request_id)
        except ConfigurationError as error:
            row["reason"] += f", but {error}"
            continue
        row["told"] = row["every"]
        told += 1
    return told


def _table(rows: Iterable[dict[str, Any]]) -> pa.Table:
    names = WATCHED_PAGES.schema.names
    return pa.Table.from_pylist(
        [{name: row[name] for name in names} for row in rows], schema=WATCHED_PAGES.schema
    )


def _affordable(plan: Plan) -> dg.AssetCheckResult:
    of_host = Counter(row["host"] for row in plan.rows if row["every"])
    most = max(of_host.values(), default=0)
    room = SHARE * plan.fetch_rate
    return dg.AssetCheckResult(
        check_name="visits_are_affordable",
        passed=plan.visits <= room * (1 + 1e-9) and most <= PER_HOST,
        metadata={"visits_per_second": plan.visits, "room": room, "most_pages_of_a_host": most},
    )


def _operators_first(plan: Plan) -> dg.AssetCheckResult:
    wrong = [row["url"] for row in plan.news if row["url"] in plan.operators]
    return dg.AssetCheckResult(
        check_name="operators_have_the_last_word",
        passed=not wrong,
        metadata={"pages": dg.MetadataValue.json(wrong)},
    )
