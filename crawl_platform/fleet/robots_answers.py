"""What an answer to a robots.txt request means for its origin and its host."""

from crawl_platform.fetch.client import Response
from crawl_platform.fetch.outcome import BACKS_OFF, Outcome
from crawl_platform.fleet.parts import Parts, redirect_target
from crawl_platform.fleet.rows import fetch_row
from crawl_platform.frontier.lease import RobotsLease, RobotsResult
from crawl_platform.web.robots import status_rule


class RobotsAnswers:
    def __init__(self, parts: Parts) -> None:
        self._p = parts

    def take(self, lease: RobotsLease, response: Response) -> None:
        p = self._p
        now = p.clock.now()
        fetch_id = p.fetch_id()
        target = redirect_target(lease.url, response)
        series = p.bulk
        series.open.rows.add(
            "fetches", fetch_row(fetch_id, "robots", lease, response, p.origin, redirect_to=target)
        )
        series.touch()
        if response.outcome is Outcome.REDIRECT and p.frontier.follow_robots(
            lease, target, p.settings.fetch.robots_redirects
        ):
            return
        complete = response.outcome not in (Outcome.REDIRECT, Outcome.BAD_REDIRECT)
        rule = status_rule(response.status) if complete else "allow_all"
        if rule == "rules" and response.outcome is not Outcome.OK:
            rule = "disallow_all"
        unwell = rule == "disallow_all" or response.outcome in BACKS_OFF
        life = p.settings.politeness.robots_retry if unwell else p.settings.politeness.robots_ttl
        body = response.body if rule == "rules" else b""
        crawl_delay = p.frontier.robots.store(lease.origin, rule, body, now + life)
        result = RobotsResult(lease, now, rule, body, now + life)
        series.open.robots.append((result, crawl_delay))
        state = p.frontier.hosts.get(lease.host)
        if state is not None:
            state.record.crawl_delay = crawl_delay
            delay = max(crawl_delay, p.settings.politeness.host_delay)
            p.tell(state, "robots", robots_status=rule, delay=delay, detail=str(response.outcome))
            p.gates.hold_host(lease.host, p.clock.boottime() + crawl_delay)
