"""What is promised of a host's pages: each is fetched again within so long of its last success, or for the first time
within so long of its discovery, whatever it is worth.

A page of such a host waits in two queues, in its own and in the deadline lane. There it comes up a lead
before the time that was promised, before all pages that are chosen by worth and outside the allotments of windows. A
fetch that fails does not reset the clock, but the retry keeps its distance. Promises are settings: after a start pages
are queued by those of today (`renew`).
"""

import logging
from itertools import islice

from crawl_platform.frontier.absorb import absorb
from crawl_platform.frontier.frontier import Frontier
from crawl_platform.frontier.hosts import HostState
from crawl_platform.frontier.kv import prefix_end
from crawl_platform.frontier.overlay import records_of
from crawl_platform.frontier.plan import Planner
from crawl_platform.frontier.records import (
    DISCOVERY,
    REFRESH,
    lane_prefix,
    parse_queue_key,
)

log = logging.getLogger(__name__)
PORTION = 1_000
"""Pages that are given other deadlines in one batch."""


def renew(frontier: Frontier, now: float, boot: float) -> None:
    """Queue the pages of hosts that were promised something else by what is promised now. For shards that were just
    loaded and of which nothing is claimed yet: a host with a million pages takes half a minute, once."""
    hosts, frontier.promised_anew = frontier.promised_anew, []
    for host in hosts:
        promised = frontier.rules.of(host).promises
        pages = sum(
            _renew_lane(frontier, frontier.hosts[host], lane, now, boot) for lane in (DISCOVERY, REFRESH)
        )
        planner = Planner(frontier, now)
        planner.promised(host, promised)
        _carry_out(frontier, planner, now, boot)
        log.info(
            "%s: %d pages are queued by the promises of %g s, and of %g s for first visits",
            host,
            pages,
            promised.within,
            promised.first_within,
        )


def _renew_lane(frontier: Frontier, state: HostState, lane: int, now: float, boot: float) -> int:
    prefix, pages = lane_prefix(state.shard, state.host, lane), 0
    cursor = prefix
    while True:
        planner = Planner(frontier, now)
        walked = list(islice((key for key, _ in frontier.kv.scan(cursor, prefix_end(prefix))), PORTION))
        urls = [parse_queue_key(key, len(prefix))[1] for key in walked]
        for url, record in records_of(frontier.kv, state.shard, state.host, urls).items():
            planner.queue_anew(state.host, url, record)
        pages += len(walked)
        _carry_out(frontier, planner, now, boot)
        if len(walked) < PORTION:
            return pages
        cursor = walked[-1] + b"\0"


def _carry_out(frontier: Frontier, planner: Planner, now: float, boot: float) -> None:
    plan = planner.finish()
    frontier.kv.write(plan.batch, sync=True)
    absorb(frontier, plan, now, boot)
