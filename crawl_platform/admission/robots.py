"""Robots verdicts per origin, cached; sans-IO: says when a robots.txt has to be fetched, never fetches.

unknown | expired ──▶ FETCH_FIRST ──answer──▶ rules | allow_all        ALLOWED or DENIED, until it expires
                                      ├─────▶ disallow_all (no answer) UNREACHABLE: nothing until the next try
                                      └─────▶ given_up (for too long)  GIVEN_UP: its URLs are dropped, with this
                                                                       reason, and it is tried again seldom
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from crawl_platform.admission.rules import HostRules
from crawl_platform.settings import Politeness
from crawl_platform.web.robots import ALLOW_ALL, DISALLOW_ALL, Robots, parse
from crawl_platform.web.url import host_of

GIVEN_UP = "given_up"
"""The rule of an origin whose robots.txt could not be had for longer than our patience (RFC 9309 §2.3.1.4)."""
_ENTRY = 400
"""Bytes that any origin takes here, about."""


class Verdict(Enum):
    ALLOWED = "allowed"
    DENIED = "denied"
    FETCH_FIRST = "fetch_first"
    """No verdict is known, or it has expired: fetch robots.txt before any page."""
    UNREACHABLE = "unreachable"
    """robots.txt can't be had: nothing may be fetched until it is tried again."""
    GIVEN_UP = "given_up"
    """It could not be had for a long time: pages are dropped, and looked at again rarely."""


class Known(NamedTuple):
    """An answer that was written down."""

    rule: str
    body: bytes
    expires_at: float


@dataclass(slots=True)
class OriginRules:
    robots: Robots
    expires_at: float
    rule: str

    @property
    def size(self) -> int:
        return _ENTRY + (self.robots.size if self.rule == "rules" else 0)


def _nothing_known(_origin: str) -> Known | None:
    return None


class RobotsCache:
    """Parsed robots files, bounded by count and by bytes; what has fallen out is read again from where it was
    written down (`recall`). Times are UTC seconds."""

    def __init__(
        self,
        agent: str,
        settings: Politeness,
        size: int = 50_000,
        rules: HostRules | None = None,
        agents: Iterable[str] = (),
    ) -> None:
        """`rules`: settings that differ from host to host. `agents`: names in which hosts are asked, if there are
        others than `agent`: any of them may come, so the longest delay that is asked of one holds for all."""
        self._agent = agent
        self._agents = tuple(dict.fromkeys(agents)) or (agent,)
        self._settings = settings
        self._rules = rules
        self._size = size
        self._origins: OrderedDict[str, OriginRules] = OrderedDict()
        self.bytes = 0
        self.recall: Callable[[str], Known | None] = _nothing_known
        self._delays: dict[str, dict[str, float]] = {}
        """Host → origin → crawl-delay, where there is one."""
        self._reachable: dict[str, set[str]] = {}
        """Host → origins whose robots.txt could be had."""

    def store(self, origin: str, rule: str, body: bytes, expires_at: float) -> float:
        """Remember an answer; returns the crawl-delay of the *host* (capped; 0 if none): the longest that any of
        its origins asks for, since they share a server."""
        robots = self._keep(origin, Known(rule, body, expires_at)).robots
        return self._note(origin, rule, self._longest(robots))

    def note(self, origin: str, rule: str, body: bytes) -> None:
        """What an answer that was written down says about its host; the rules are read when they are needed."""
        asks = rule == "rules" and any(word in body.lower() for word in (b"delay", b"rate"))
        self._note(origin, rule, self._longest(parse(body)) if asks else 0.0)

    def _longest(self, robots: Robots) -> float:
        """The crawl-delay that `robots` asks for, of whichever of our names; 0: none."""
        return max(robots.crawl_delay(agent) or 0.0 for agent in self._agents)

    def rules_of(self, origin: str) -> Robots | None:
        """What is in force at `origin`, expired or not: for sitemaps and preferences. None: nothing is known."""
        found = self._find(origin)
        return found.robots if found is not None else None

    def reachable(self, host: str) -> bool:
        """Whether some origin of `host` has answered: then another that doesn't (a wrong port, say) is that
        origin's trouble, not the host's."""
        return host in self._reachable

    def verdict(self, origin: str, url: str, now: float, agent: str = "") -> tuple[Verdict, float]:
        """The verdict, and for `UNREACHABLE` the time at which to try again. `agent`: as whom, if not as usual."""
        rules = self._find(origin)
        if rules is None or now >= rules.expires_at:
            return Verdict.FETCH_FIRST, now
        if rules.rule == "disallow_all":
            return Verdict.UNREACHABLE, rules.expires_at
        if rules.rule == GIVEN_UP:
            return Verdict.GIVEN_UP, rules.expires_at
        allowed = rules.robots.allows(url, agent or self._agent)
        return (Verdict.ALLOWED if allowed else Verdict.DENIED), now

    def _find(self, origin: str) -> OriginRules | None:
        found = self._origins.get(origin)
        if found is not None:
            self._origins.move_to_end(origin)
            return found
        known = self.recall(origin)
        return None if known is None else self._keep(origin, known)

    def _keep(self, origin: str, known: Known) -> OriginRules:
        standing = {"allow_all": ALLOW_ALL, "disallow_all": DISALLOW_ALL, GIVEN_UP: DISALLOW_ALL}
        robots = standing.get(known.rule) or parse(known.body)
        before = self._origins.pop(origin, None)
        kept = self._origins[origin] = OriginRules(robots, known.expires_at, known.rule)
        self.bytes += kept.size - (before.size if before is not None else 0)
        while len(self._origins) > 1 and self._is_full():
            self.bytes -= self._origins.popitem(last=False)[1].size
        return kept

    def _is_full(self) -> bool:
        return len(self._origins) > self._size or self.bytes > self._settings.robots_cache_bytes

    def _note(self, origin: str, rule: str, delay: float) -> float:
        host = host_of(origin)
        origins = self._reachable.setdefault(host, set())
        origins.discard(origin) if rule in ("disallow_all", GIVEN_UP) else origins.add(origin)
        if not origins:
            del self._reachable[host]
        delays = self._delays.setdefault(host, {})
        if delay > 0:
            delays[origin] = min(delay, self._cap(host))
        else:
            delays.pop(origin, None)
        longest = max(delays.values(), default=0.0)
        if not delays:
            del self._delays[host]
        return longest

    def _cap(self, host: str) -> float:
        settings = self._rules.of(host).politeness if self._rules is not None else self._settings
        return settings.crawl_delay_cap
