"""How hosts misbehave: slowly, in drips, in bits, only so often, or not for a while."""

from crawl_platform.simulation import chance
from crawl_platform.simulation.host import Host
from crawl_platform.simulation.message import Reply, Request

_BURST = 4.0
_REFILL = 0.5
"""A limited host bears a burst of 4 requests and then one every 2 s."""
_RETRY_AFTER = 3
_CYCLE, _DOWN = 60.0, 15.0
"""A host with outages is down for 15 s of every 60."""
_DRIP_SPEED = 4_000.0
"""Bytes per second: a 12 KB page takes 3 s."""

_STUCK_SHARE = 0.3
_FOREVER = 86_400.0
"""Seconds: longer than any client waits."""


class Faults:
    """Keeps what a limited host remembers of its visitors; all else follows from the request's number."""

    def __init__(self, seed: int, started_at: float) -> None:
        self._seed = seed
        self._started_at = started_at
        self._patience: dict[str, tuple[float, float]] = {}

    def refusal(self, host: Host, now: float) -> Reply | None:
        """A 429 or 503 instead of the page."""
        if host.fault == "limited" and not self._spend(host.name, now):
            return Reply(429, [("Retry-After", str(_RETRY_AFTER))], b"slow down\n")
        if host.fault == "outage" and self.is_down(host, now):
            # Every other outage says for how long.
            known = int((now - self._started_at) // _CYCLE) % 2 == 0
            headers = [("Retry-After", str(int(_DOWN)))] if known else []
            return Reply(503, headers, b"back soon\n")
        return None

    def is_down(self, host: Host, now: float) -> bool:
        phase = chance.unit(self._seed, "outage", host.name) * _CYCLE
        return (now - self._started_at + phase) % _CYCLE < _DOWN

    def spoil(self, reply: Reply, host: Host, request: Request, now: float) -> Reply:
        """Delay, drip or break the reply as the host does."""
        if not host.fault:
            return reply
        rng = chance.rng(self._seed, "fault", host.name, request.number, now)
        if host.fault == "slow":
            reply.delay = min(8.0, rng.lognormvariate(0.3, 0.6))
        elif host.fault == "stuck" and rng.random() < _STUCK_SHARE:
            reply.delay = _FOREVER
        elif host.fault == "drip":
            reply.speed = _DRIP_SPEED
        elif host.fault == "flaky" and reply.status == 200:
            self._break(reply, rng.random(), rng.random())
        return reply

    def _break(self, reply: Reply, which: float, where: float) -> None:
        """One reply in eight is reset before its head, one cut short, one in sixteen lies about its length."""
        if which < 0.125:
            reply.cut, reply.ending = -1, "reset"
        elif which < 0.25:
            reply.cut = int(len(reply.body) * where)
        elif which < 0.3125:
            reply.headers.append(("Content-Length", str(len(reply.body) + 1000)))
            reply.cut = len(reply.body)

    def _spend(self, name: str, now: float) -> bool:
        left, at = self._patience.get(name, (_BURST, now))
        left = min(_BURST, left + (now - at) * _REFILL)
        self._patience[name] = (max(0.0, left - 1) if left >= 1 else left, now)
        return left >= 1
