"""After the commit point: the frontier's memory follows the store."""

from crawl_platform.admission.hosts import SEED
from crawl_platform.frontier.frontier import Frontier
from crawl_platform.frontier.hosts import HostState
from crawl_platform.frontier.overlay import Plan


def absorb(frontier: Frontier, plan: Plan, now: float, boot: float) -> None:
    """The plan's batch is in the store: bring the frontier's memory in line with it."""
    for key in plan.added:
        frontier.seen.add(key)
    frontier.known += plan.new_urls
    frontier.fetched += plan.first_fetches
    frontier.dead += plan.new_dead
    frontier.turned_away.update(plan.turned_away)
    for found in (found for links in plan.foreign.values() for found in links):
        frontier.sent.add(found.url.encode())
    for host in plan.admitted:
        frontier.book.set(host, SEED)
    for lease in plan.released:
        frontier.hosts[lease.host].leased.discard(lease.url)
    for host, record in plan.hosts.items():
        state = frontier.hosts.get(host)
        if state is None:
            state = frontier.hosts[host] = HostState(host, frontier.book.shard(host), record)
        state.record = record
    # A released URL may have been queued anew meanwhile, so its host counts although the plan left it alone.
    for host in dict.fromkeys((*plan.hosts, *(lease.host for lease in plan.released))):
        frontier.hosts[host].queues_changed()
        frontier.reschedule(host, now, boot)
