"""Robots verdicts per origin, cached; sans-IO: says when a robots.txt has to be fetched, never fetches."""

from collections import OrderedDict
from dataclasses import dataclass
from enum import Enum

from crawl_platform.settings import Politeness
from crawl_platform.web.robots import ALLOW_ALL, DISALLOW_ALL, Robots, parse
from crawl_platform.web.url import host_of


class Verdict(Enum):
    ALLOWED = "allowed"
    DENIED = "denied"
    FETCH_FIRST = "fetch_first"
    """No verdict is known, or it has expired: fetch robots.txt before any page."""
    UNREACHABLE = "unreachable"
    """robots.txt can't be had: nothing may be fetched until it is tried again."""


@dataclass(slots=True)
class OriginRules:
    robots: Robots
    expires_at: float
    unreachable: bool


class RobotsCache:
    """Bounded cache of parsed robots files. Times are UTC seconds."""

    def __init__(self, agent: str, settings: Politeness, size: int = 50_000) -> None:
        self._agent = agent
        self._settings = settings
        self._size = size
        self._origins: OrderedDict[str, OriginRules] = OrderedDict()
        self._delays: dict[str, dict[str, float]] = {}
        """Host → origin → crawl-delay, where there is one."""
        self._reachable: dict[str, set[str]] = {}
        """Host → origins whose robots.txt could be had."""

    def store(self, origin: str, rule: str, body: bytes, expires_at: float) -> float:
        """Remember an answer; returns the crawl-delay of the *host* (capped; 0 if none): the longest that any of
        its origins asks for, since they share a server."""
        robots = {"allow_all": ALLOW_ALL, "disallow_all": DISALLOW_ALL}.get(rule) or parse(body)
        self._origins[origin] = OriginRules(robots, expires_at, rule == "disallow_all")
        self._origins.move_to_end(origin)
        if len(self._origins) > self._size:
            self._origins.popitem(last=False)
        self._note_reachable(origin, rule != "disallow_all")
        return self._host_delay(origin, robots.crawl_delay(self._agent) or 0.0)

    def reachable(self, host: str) -> bool:
        """Whether some origin of `host` has answered: then another that doesn't (a wrong port, say) is that
        origin's trouble, not the host's."""
        return host in self._reachable

    def _note_reachable(self, origin: str, reachable: bool) -> None:
        host = host_of(origin)
        origins = self._reachable.setdefault(host, set())
        origins.add(origin) if reachable else origins.discard(origin)
        if not origins:
            del self._reachable[host]

    def _host_delay(self, origin: str, delay: float) -> float:
        host = host_of(origin)
        delays = self._delays.setdefault(host, {})
        if delay > 0:
            delays[origin] = min(delay, self._settings.crawl_delay_cap)
        else:
            delays.pop(origin, None)
        longest = max(delays.values(), default=0.0)
        if not delays:
            del self._delays[host]
        return longest

    def verdict(self, origin: str, url: str, now: float) -> tuple[Verdict, float]:
        """The verdict, and for `UNREACHABLE` the time at which to try again."""
        rules = self._origins.get(origin)
        if rules is None or now >= rules.expires_at:
            return Verdict.FETCH_FIRST, now
        if rules.unreachable:
            return Verdict.UNREACHABLE, rules.expires_at
        return (Verdict.ALLOWED if rules.robots.allows(url, self._agent) else Verdict.DENIED), now
