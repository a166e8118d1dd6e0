"""The fleet as seen by those who steer it: the CLI, Dagster's resource, tests. Synchronous.

Each call opens a connection of its own (about 10 ms on loopback): decisions are few, and a broken
connection can't outlive the call that noticed it.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import msgspec

from crawl_platform.admission.hosts import EXCLUDED, HORIZON, SEED
from crawl_platform.admission.stops import EVERYTHING, Word
from crawl_platform.clock import Clock, SystemClock
from crawl_platform.errors import ConfigurationError
from crawl_platform.fleet.exchange import Endpoint, Exchange, directive_key
from crawl_platform.fleet.messages import (
    Admit,
    Appraise,
    DiscoveredUrl,
    GroupPriors,
    Heartbeat,
    HostPolicy,
    InboxMessage,
    PurgeOrder,
    Recrawl,
    ScheduleWindow,
    Trim,
    Watch,
    Worth,
    encode,
)
from crawl_platform.fleet.policies import host_policy, policy_of, read_patterns
from crawl_platform.fleet.seeding import Listed, Seeding, entry_url, grouped
from crawl_platform.fleet.upkeep import ABSENT, PATIENCE, PORTIONS, SUBJECT, Answer, Order, in_portions
from crawl_platform.lake.upkeep.report import Report
from crawl_platform.web.host import shard_of
from crawl_platform.web.url import canonicalize, host_of

T = TypeVar("T")
V = TypeVar("V")
APPRAISED = 500
"""URLs per message of new values: well under NATS' payload limit."""


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

    def seed(
        self,
        urls: Sequence[str],
        *,
        sitemaps: Sequence[str] = (),
        reason: str = "seed list",
        trusted: bool = True,
    ) -> int:
        """Add the hosts of `urls` to the seed; returns how many hosts. Raises on a URL that is not one, and on a host
        that is excluded: then nothing was added.

        `sitemaps`: URLs of sitemaps, each of which may list any page of its own host.
        """
        by_host = grouped(map(entry_url, urls), map(entry_url, sitemaps))

        async def work(exchange: Exchange) -> int:
            seeding = await self._seeding(exchange, reason, trusted)
            await seeding.require_free(by_host)
            await seeding.admit(by_host)
            return len(by_host)

        return self._run(work)

    def seed_list(
        self,
        lines: Iterable[str],
        *,
        reason: str,
        told: Callable[[Listed], None] = lambda listed: None,
        trusted: bool = True,
        after: int = 0,
    ) -> Listed:
        """Add what a list names to the seed, however long it is; lines that are no good are left out and told.

        `told` is called after every chunk with what has become of the list so far; `after`: number of the last line
        that is passed over.
        """

        async def work(exchange: Exchange) -> Listed:
            seeding = await self._seeding(exchange, reason, trusted)
            return await seeding.admit_list(lines, told, after)

        return self._run(work)

    async def _seeding(self, exchange: Exchange, reason: str, trusted: bool) -> Seeding:
        patterns = await read_patterns(exchange)
        return Seeding(exchange, self._n_shards, patterns, self._clock.now(), reason, trusted=trusted)

    def promote(
        self, host: str, urls: Sequence[str], *, decision_id: str, reason: str, most_pages: int | None = None
    ) -> int:
        """Move `host` from the horizon to the seed with its known URLs; returns the inbox sequence.

        `most_pages`: how many pages may be known of it while it is on probation, 0 for no such bound (it has passed);
        None leaves that as it is.
        """
        found = tuple(DiscoveredUrl(url, 1 if place else 0) for place, url in enumerate(urls))

        async def work(exchange: Exchange) -> int:
            known, revision = await host_policy(exchange, host) or (None, 0)
            if known is not None and known.state == EXCLUDED:
                raise ConfigurationError(
                    f"{host} is excluded: lift that first (`crawl exclude --lift {host}`)"
                )
            before = known.most_pages if known is not None and known.state == SEED else 0
            bound = before if most_pages is None else most_pages
            if known is None or known.state != SEED or bound != before:
                trusted = known is not None and known.state == SEED and known.trusted
                policy = HostPolicy(host, SEED, trusted, decision_id, reason, self._clock.now(), bound)
                await exchange.swap("directives", directive_key("host", host), encode(policy), revision)
            # A cell may hear of the host before it hears of the bound.
            first = found[:bound] if bound else found
            return await self._to_shard(exchange, host, Admit(host, first, decision_id, reason, False), "")

        return self._run(work)

    def demote(self, host: str, *, promotion: str, decision_id: str, reason: str) -> int:
        """Put a host back on the horizon that the decision `promotion` has promoted: it is read no more. Returns the
        directive's revision; 0 if it has left the seed, or somebody has asked for it since. Raises `ConfigurationError`
        if an operator has chosen it."""

        async def work(exchange: Exchange) -> int:
            known, revision = await host_policy(exchange, host) or (None, 0)
            if known is None or known.state != SEED:
                return 0
            if known.trusted:
                raise ConfigurationError(f"{host} was chosen by an operator: only `crawl exclude` stops it")
            if known.decision_id != promotion:
                return 0
            policy = HostPolicy(host, HORIZON, False, decision_id, reason, self._clock.now())
            return await exchange.swap("directives", directive_key("host", host), encode(policy), revision)

        return self._run(work)

    def remove(self, host: str, *, request_id: str, reason: str) -> str:
        """Take a host out of the seed, whoever has chosen it: it stands on the horizon. Returns what it was; nothing is
        done unless that is `seed`. Raises `OwnershipLostError` if somebody else says something of it just now."""

        async def work(exchange: Exchange) -> str:
            known, revision = await host_policy(exchange, host) or (None, 0)
            if known is not None and known.state == SEED:
                policy = HostPolicy(host, HORIZON, False, request_id, reason, self._clock.now())
                await exchange.swap("directives", directive_key("host", host), encode(policy), revision)
            return known.state if known is not None else "unknown"

        return self._run(work)

    def recrawl(self, url: str, *, request_id: str) -> int:
        """Ask for one fetch of `url` now; returns the inbox sequence (that is the acceptance)."""
        return self._about_page(url, lambda url: Recrawl(url, request_id, self._clock.now()), request_id)

    def watch(self, url: str, every: float, *, request_id: str) -> int:
        """Have `url` visited every so many seconds (see `messages.Watch`); returns the inbox sequence."""
        return self._about_page(url, lambda url: Watch(url, every), request_id)

    def _about_page(self, url: str, message: Callable[[str], Recrawl | Watch], request_id: str) -> int:
        """Tell the cell of a seed host something about one of its pages. Raises for a page that may not be fetched."""
        canonical = canonicalize(url)
        if canonical is None:
            raise ConfigurationError(f"not a URL that can be crawled: {url!r}")
        host = host_of(canonical)

        async def work(exchange: Exchange) -> int:
            policy = await policy_of(exchange, await read_patterns(exchange), host, canonical)
            if policy is None or policy.state != "seed":
                state = (
                    "on the horizon: promote it first"
                    if policy is None or policy.state == HORIZON
                    else f"excluded ({policy.reason})"
                )
                raise ConfigurationError(f"{host} is {state}")
            return await self._to_shard(exchange, host, message(canonical), request_id)

        return self._run(work)

    def trim(self, host: str, *, keep: int, deepest: int, request_id: str) -> int:
        """Cut the queue of `host` (see `messages.Trim`); returns the inbox sequence."""
        message = Trim(host, keep, deepest, request_id)
        return self._run(lambda exchange: self._to_shard(exchange, host, message, request_id))

    def exclude(self, pattern: str, *, request_id: str = "", reason: str = "") -> int:
        """Never fetch `pattern` (a host or `*.domain`) again; in force in every cell within moments."""
        policy = HostPolicy(pattern, "excluded", False, request_id, reason, self._clock.now())
        return self._run(
            lambda exchange: exchange.put("directives", directive_key("host", pattern), encode(policy))
        )

    def lift(self, pattern: str, *, request_id: str = "", reason: str = "") -> int:
        """Take back the exclusion of exactly `pattern`. Raises `ConfigurationError` if there is none, unless
        it was this very request that took it back.

        Hosts below a lifted `*.domain` that are in the seed go on; a lifted host has to be seeded again.
        """

        async def work(exchange: Exchange) -> int:
            key = directive_key("host", pattern)
            entry = await exchange.get("directives", key)
            policy = None if entry is None else msgspec.json.decode(entry[0], type=HostPolicy)
            if entry and policy and policy.state == "lifted" and request_id == policy.decision_id != "":
                return entry[1]
            if policy is None or policy.state != "excluded":
                raise ConfigurationError(
                    f"{pattern} is not excluded (by this name): `crawl seed` lists exclusions"
                )
            lifted = HostPolicy(pattern, "lifted", False, request_id, reason, self._clock.now())
            return await exchange.put("directives", key, encode(lifted))

        return self._run(work)

    def schedule(self, window: ScheduleWindow) -> int:
        """Put a schedule window in force; returns its revision. Each shard gets the part of its own hosts."""
        allocations, groups = self._by_shard(window.allocations), self._by_shard(window.groups)
        return self._to_all_shards(
            "window",
            lambda shard: msgspec.structs.replace(
                window, allocations=allocations[shard], groups=groups[shard]
            ),
        )

    def priors(self, priors: GroupPriors) -> int:
        """Tell every shard what to believe of its groups' change rates; returns the revision."""
        hosts, groups = self._by_shard(priors.hosts), self._by_shard(priors.groups)
        return self._to_all_shards(
            "priors", lambda shard: GroupPriors(priors.default, hosts[shard], groups[shard])
        )

    def _by_shard(self, by_host: Mapping[str, V]) -> list[dict[str, V]]:
        parts: list[dict[str, V]] = [{} for _ in range(self._n_shards)]
        for host, value in by_host.items():
            parts[shard_of(host, self._n_shards)][host] = value
        return parts

    def _to_all_shards(self, kind: str, part: Callable[[int], msgspec.Struct]) -> int:
        """Put a directive of every shard: also those without a host in it drop what was said before."""

        async def work(exchange: Exchange) -> int:
            revision = 0
            for shard in range(self._n_shards):
                revision = await exchange.put("directives", f"{kind}.{shard}", encode(part(shard)))
            return revision

        return self._run(work)

    def appraise(self, worths: Iterable[Worth]) -> int:
        """Say what known URLs are worth; returns how many were told. What is no URL raises, and tells nothing."""
        by_shard: dict[int, list[Worth]] = {}
        for worth in worths:
            url = canonicalize(worth.url)
            if url is None:
                raise ConfigurationError(f"not a URL that can be crawled: {worth.url!r}")
            shard = shard_of(host_of(url), self._n_shards)
            by_shard.setdefault(shard, []).append(Worth(url, worth.value, worth.reason))

        async def work(exchange: Exchange) -> int:
            for shard, told in by_shard.items():
                for start in range(0, len(told), APPRAISED):
                    message = Appraise(tuple(told[start : start + APPRAISED]))
                    await exchange.publish(f"inbox.{shard}", encode(message))
            return sum(map(len, by_shard.values()))

        return self._run(work)

    def pause(self, paused: bool, domain: str = EVERYTHING, at: float | None = None) -> int:
        """Stop or resume claiming in every cell: all hosts, or those of a registrable domain.

        `at` (UTC seconds, default: now): of two words about the same the later one holds.
        """
        word = Word(domain, paused, self._clock.now() if at is None else at)
        return self._run(
            lambda exchange: exchange.put("directives", directive_key("pause", domain), encode(word))
        )

    def paused(self) -> bool:
        """Whether a pause of everything is in force, as far as the exchange knows."""
        return any(word.paused for word in self.stop_words() if word.domain == EVERYTHING)

    def stop_words(self) -> list[Word]:
        """The last word about each domain, and about the whole crawl."""

        async def work(exchange: Exchange) -> list[Word]:
            entries = await exchange.items("directives")
            return [
                msgspec.json.decode(value, type=Word)
                for key, value in entries.items()
                if key == "pause" or key.startswith("pause.")
            ]

        return self._run(work)

    def purge(self, order: PurgeOrder) -> int:
        """Have every cell delete what it knows of a pattern; exclude it first. To be repeated at will."""
        key = directive_key("purge", order.request_id)
        return self._run(lambda exchange: exchange.put("directives", key, encode(order)))

    def policy(self, host: str, url: str = "") -> HostPolicy | None:
        """The directive in force for `host`, or for its canonical `url`: an exclusion that covers it, before others."""

        async def work(exchange: Exchange) -> HostPolicy | None:
            return await policy_of(exchange, await read_patterns(exchange), host, url)

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

    def directive(self, name: str) -> HostPolicy | None:
        """The last word about exactly this host or `*.domain`, `lifted` included."""

        async def work(exchange: Exchange) -> HostPolicy | None:
            entry = await exchange.get("directives", directive_key("host", name))
            return None if entry is None else msgspec.json.decode(entry[0], type=HostPolicy)

        return self._run(work)

    def upkeep(
        self,
        tables: Sequence[str] = (),
        *,
        dry_run: bool = False,
        portions: int = PORTIONS,
        only_purges: bool = False,
    ) -> Report:
        """Have the committer look after `tables` (default: all) between its rounds; returns what was done.

        Asks for another portion while one is left. Raises `PlatformError` if upkeep failed.
        """
        order = encode(Order(tuple(tables), dry_run, only_purges))

        def ask() -> Report:
            answer = self._run(lambda exchange: exchange.ask(SUBJECT, order, PATIENCE, absent=ABSENT))
            return msgspec.json.decode(answer, type=Answer).result()

        return in_portions(ask, portions)

    def heartbeats(self) -> list[Heartbeat]:
        """Last sign of life of each cell."""

        async def work(exchange: Exchange) -> list[Heartbeat]:
            entries = await exchange.items("cells")
            return [msgspec.json.decode(value, type=Heartbeat) for value in entries.values()]

        return self._run(work)

    def window(self, host: str | None = None) -> ScheduleWindow | None:
        """The schedule window last put in force: whole, or the part of the shard that `host` belongs to."""

        async def work(exchange: Exchange) -> ScheduleWindow | None:
            entries = await self._windows(exchange, host)
            return merged(msgspec.json.decode(data, type=ScheduleWindow) for data in entries)

        return self._run(work)

    async def _windows(self, exchange: Exchange, host: str | None) -> list[bytes]:
        if host is None:
            entries = await exchange.items("directives")
            return [data for key, data in entries.items() if key.startswith("window.")]
        entry = await exchange.get("directives", f"window.{shard_of(host, self._n_shards)}")
        return [] if entry is None else [entry[0]]


def merged(parts: Iterable[ScheduleWindow]) -> ScheduleWindow | None:
    """The window that starts last, from its parts: shards that still have another one are left out."""
    known = list(parts)
    if not known:
        return None
    last = max(known, key=lambda part: part.starts_at)
    same = [part for part in known if part.window_id == last.window_id]
    allocations = {host: given for part in same for host, given in part.allocations.items()}
    groups = {host: given for part in same for host, given in part.groups.items()}
    return msgspec.structs.replace(last, allocations=allocations, groups=groups)
