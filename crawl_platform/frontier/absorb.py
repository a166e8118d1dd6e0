"""After the commit point: the frontier's memory follows the store."""

from crawl_platform.admission.hosts import SEED
from crawl_platform.frontier.frontier import Frontier
from crawl_platform.frontier.hosts import HostState
from crawl_platform.frontier.overlay import Plan


def absorb(frontier: Frontier, plan: Plan, now: float, boot: float) -> None:
    """The plan's batch is in the store: bring the frontier's memory in line with it."""
    if plan.digests:
        frontier.seen.enter(plan.digests)
        frontier.log.written(len(plan.digests))
    frontier.known += plan.new_urls
    frontier.fetched += plan.first_fetches
    frontier.dead += plan.new_dead
    frontier.turned_away.update(plan.turned_away)
    for found in (found for links in plan.foreign.values() for found in links):
        frontier.sent.add(found.url.encode())
    for host in plan.admitted:
        frontier.book.set(host, SEED)
    for host, record in plan.hosts.items():
        state = frontier.hosts.get(host)
        if state is None:
            state = frontier.hosts[host] = HostState(host, frontier.book.shard(host), record)
        state.record = record
    for host, url in plan.rewritten:
        frontier.hosts[host].changed(url)
    for lease in plan.released:
        frontier.hosts[lease.host].leased.pop(lease.url, None)
    for host, moves in plan.moves.items():
        frontier.hosts[host].follow(moves)
    for host in plan.still_queued:
        frontier.hosts[host].queues_changed()
    # A released URL may have been queued anew meanwhile, so its host counts although the plan left it alone.
    for host in dict.fromkeys((*plan.hosts, *(lease.host for lease in plan.released))):
        frontier.reschedule(host, now, boot)
