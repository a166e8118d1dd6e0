"""The fleet as seen by those who steer it: the CLI, Dagster's resource, tests. Synchronous.

Each call opens a connection of its own (about 10 ms on loopback): decisions are few, and a broken
connection can't outlive the call that noticed it.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TypeVar

import msgspec

from crawl_platform.clock import Clock, SystemClock
from crawl_platform.errors import ConfigurationError
from crawl_platform.fleet.exchange import Endpoint, Exchange, directive_key
from crawl_platform.fleet.messages import (
    Admit,
    DiscoveredUrl,
    Heartbeat,
    HostPolicy,
    InboxMessage,
    Recrawl,
    ScheduleWindow,
    encode,
)
from crawl_platform.web.host import matches, shard_of
from crawl_platform.web.url import canonicalize, host_of

T = TypeVar("T")


class FleetClient:
    """`endpoint_file` is `<home>/run/nats.json`; every method raises `ExchangeError` if NATS is away."""

    def __init__(self, endpoint_file: Path, n_shards: int, clock: Clock | None = None) -> None:
        self._endpoint_file = endpoint_file
        self._n_shards = n_shards
        self._clock = clock or SystemClock()

    def _run(self, work: Callable[[Exchange], Awaitable[T]]) -> T:
        async def session() -> T:
            exchange = await Exchange.connect(Endpoint.read(self._endpoint_file), "client")
            try:
                return await work(exchange)
            finally:
                await exchange.close()

        return asyncio.run(session())

    async def _to_shard(self, exchange: Exchange, host: str, message: InboxMessage, message_id: str) -> int:
        return await exchange.publish(f"inbox.{shard_of(host, self._n_shards)}", encode(message), message_id)

    def seed(self, urls: Sequence[str], *, reason: str = "seed list", trusted: bool = True) -> int:
        """Add the hosts of `urls` to the seed; returns how many hosts. Raises on a URL that is not one."""
        by_host: dict[str, list[str]] = {}
        for url in urls:
            canonical = canonicalize(url if "://" in url else f"https://{url}/")
            if canonical is None:
                raise ConfigurationError(f"not a URL or host that can be crawled: {url!r}")
            by_host.setdefault(host_of(canonical), []).append(canonical)

        async def work(exchange: Exchange) -> int:
            policies = await self._policies(exchange)
            found = {host: policy_for(policies, host) for host in by_host}
            barred = [policy.name for policy in found.values() if policy and policy.state == "excluded"]
            if barred:
                names = ", ".join(dict.fromkeys(barred))
                raise ConfigurationError(
                    f"excluded, nothing was added: {names} (`crawl exclude --lift` first)"
                )
            for host, known in by_host.items():
                await self._admit(exchange, host, known, decision_id="", reason=reason, trusted=trusted)
            return len(by_host)

        return self._run(work)

    def promote(self, host: str, urls: Sequence[str], *, decision_id: str, reason: str) -> int:
        """Move `host` from the horizon to the seed with its known URLs; returns the inbox sequence."""
        return self._run(
            lambda exchange: self._admit(
                exchange, host, urls, decision_id=decision_id, reason=reason, trusted=False
            )
        )

    async def _admit(
        self,
        exchange: Exchange,
        host: str,
        urls: Sequence[str],
        *,
        decision_id: str,
        reason: str,
        trusted: bool,
    ) -> int:
        key = directive_key("host", host)
        current = await exchange.get("directives", key)
        if current is not None and msgspec.json.decode(current[0], type=HostPolicy).state == "excluded":
            raise ConfigurationError(f"{host} is excluded: lift that first (`crawl exclude --lift {host}`)")
        known = None if current is None else msgspec.json.decode(current[0], type=HostPolicy)
        if known is None or known.state != "seed" or trusted:
            policy = HostPolicy(host, "seed", trusted, decision_id, reason, self._clock.now())
            await exchange.put("directives", key, encode(policy))
        found = tuple(DiscoveredUrl(url, 0 if i == 0 else 1) for i, url in enumerate(urls))
        return await self._to_shard(exchange, host, Admit(host, found, decision_id, reason, trusted), "")

    def recrawl(self, url: str, *, request_id: str) -> int:
        """Ask for one fetch of `url` now; returns the inbox sequence (that is the acceptance)."""
        canonical = canonicalize(url)
        if canonical is None:
            raise ConfigurationError(f"not a URL that can be crawled: {url!r}")

        async def work(exchange: Exchange) -> int:
            policy = policy_for(await self._policies(exchange), host_of(canonical))
            if policy is None or policy.state != "seed":
                state = (
                    "on the horizon: promote it first" if policy is None else f"excluded ({policy.reason})"
                )
                raise ConfigurationError(f"{host_of(canonical)} is {state}")
            message = Recrawl(canonical, request_id, self._clock.now())
            return await self._to_shard(exchange, host_of(canonical), message, request_id)

        return self._run(work)

    def exclude(self, pattern: str, *, request_id: str = "", reason: str = "") -> int:
        """Never fetch `pattern` (a host or `*.domain`) again; in force in every cell within moments."""
        policy = HostPolicy(pattern, "excluded", False, request_id, reason, self._clock.now())
        return self._run(
            lambda exchange: exchange.put("directives", directive_key("host", pattern), encode(policy))
        )

    def lift(self, pattern: str, *, reason: str = "") -> int:
        """Take back the exclusion of exactly `pattern`. Raises `ConfigurationError` if there is none.

        Hosts below a lifted `*.domain` that are in the seed go on; a lifted host has to be seeded again.
        """

        async def work(exchange: Exchange) -> int:
            policy = (await self._policies(exchange)).get(pattern)
            if policy is None or policy.state != "excluded":
                raise ConfigurationError(
                    f"{pattern} is not excluded (by this name): `crawl seed` lists exclusions"
                )
            lifted = HostPolicy(pattern, "lifted", reason=reason, since=self._clock.now())
            return await exchange.put("directives", directive_key("host", pattern), encode(lifted))

        return self._run(work)

    def schedule(self, window: ScheduleWindow) -> int:
        """Put a schedule window in force; returns its revision."""
        return self._run(lambda exchange: exchange.put("directives", "window", encode(window)))

    def pause(self, paused: bool) -> int:
        """Stop or resume claiming in every cell."""
        return self._run(lambda exchange: exchange.put("directives", "pause", b"1" if paused else b"0"))

    def paused(self) -> bool:
        """Whether a pause is in force."""

        async def work(exchange: Exchange) -> bool:
            entry = await exchange.get("directives", "pause")
            return entry is not None and entry[0] == b"1"

        return self._run(work)

    def hosts(self) -> dict[str, HostPolicy]:
        """Every host directive by name."""
        return self._run(self._policies)

    async def _policies(self, exchange: Exchange) -> dict[str, HostPolicy]:
        entries = await exchange.items("directives")
        decoded = [
            msgspec.json.decode(v, type=HostPolicy) for k, v in entries.items() if k.startswith("host.")
        ]
        return {policy.name: policy for policy in decoded if policy.state != "lifted"}

    def heartbeats(self) -> list[Heartbeat]:
        """Last sign of life of each cell."""

        async def work(exchange: Exchange) -> list[Heartbeat]:
            entries = await exchange.items("cells")
            return [msgspec.json.decode(value, type=Heartbeat) for value in entries.values()]

        return self._run(work)

    def window(self) -> ScheduleWindow | None:
        """The schedule window last put in force."""

        async def work(exchange: Exchange) -> ScheduleWindow | None:
            entry = await exchange.get("directives", "window")
            return None if entry is None else msgspec.json.decode(entry[0], type=ScheduleWindow)

        return self._run(work)


def policy_for(policies: dict[str, HostPolicy], host: str) -> HostPolicy | None:
    """The directive in force for `host`; an exclusion that covers it beats everything."""
    exclusions = (p for p in policies.values() if p.state == "excluded" and matches(p.name, host))
    return next(exclusions, None) or policies.get(host)
