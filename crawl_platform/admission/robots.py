"""Robots verdicts per origin, cached; sans-IO: says when a robots.txt has to be fetched, never fetches."""

from collections import OrderedDict
from dataclasses import dataclass
from enum import Enum

from crawl_platform.settings import Politeness
from crawl_platform.web.robots import ALLOW_ALL, DISALLOW_ALL, Robots, parse


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

    def __contains__(self, origin: str) -> bool:
        return origin in self._origins

    def store(self, origin: str, rule: str, body: bytes, expires_at: float) -> float:
        """Remember an answer; returns the crawl-delay that holds for us (capped; 0 if none)."""
        robots = {"allow_all": ALLOW_ALL, "disallow_all": DISALLOW_ALL}.get(rule) or parse(body)
        self._origins[origin] = OriginRules(robots, expires_at, rule == "disallow_all")
        self._origins.move_to_end(origin)
        if len(self._origins) > self._size:
            self._origins.popitem(last=False)
        return min(robots.crawl_delay(self._agent) or 0.0, self._settings.crawl_delay_cap)

    def verdict(self, origin: str, url: str, now: float) -> tuple[Verdict, float]:
        """The verdict, and for `UNREACHABLE` the time at which to try again."""
        rules = self._origins.get(origin)
        if rules is None or now >= rules.expires_at:
            return Verdict.FETCH_FIRST, now
        if rules.unreachable:
            return Verdict.UNREACHABLE, rules.expires_at
        return (Verdict.ALLOWED if rules.robots.allows(url, self._agent) else Verdict.DENIED), now

    def sitemaps(self, origin: str) -> list[str]:
        rules = self._origins.get(origin)
        return list(rules.robots.sitemaps) if rules else []
