"""After the commit point: the frontier's memory follows the store."""

from collections.abc import Iterable

from crawl_platform.admission.hosts import SEED
from crawl_platform.frontier.frontier import Frontier
from crawl_platform.frontier.hosts import HostState, Move
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
    hosts = frontier.hosts
    for host, record in plan.hosts.items():
        state = hosts.get(host)
        if state is None:
            state = hosts[host] = HostState(host, frontier.book.shard(host), record)
        state.record, state.stored = record, 0
    for host, url in plan.rewritten:
        hosts[host].changed(url)
    for lease in plan.released:
        hosts[lease.host].leased.pop(lease.url, None)
    for host, moves in plan.moves.items():
        hosts[host].follow(moves)
    for host in plan.still_queued:
        hosts[host].queues_changed()
    # A released URL may have been queued anew meanwhile, so its host counts although the plan left it alone.
    for host in dict.fromkeys((*plan.hosts, *(lease.host for lease in plan.released))):
        if host in plan.still_queued or not _comes_in_time(
            frontier, host, plan.moves.get(host, ()), now, boot
        ):
            frontier.reschedule(host, now, boot)


def _comes_in_time(frontier: Frontier, host: str, moves: Iterable[Move], now: float, boot: float) -> bool:
    """Whether the host has a place on the agenda that is early enough for all that has entered its queues."""
    at = frontier.agenda.at(host)
    return at is not None and all(
        data is None or (at - boot) * 1000 <= rank - now * 1000 for _, rank, _, data in moves
    )
