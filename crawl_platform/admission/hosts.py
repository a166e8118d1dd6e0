"""Which hosts may be fetched at all: the seed, minus exclusions. Everything else is horizon."""

from crawl_platform.admission.stops import Stops
from crawl_platform.errors import PlatformError
from crawl_platform.web.host import matches, shard_of
from crawl_platform.web.url import host_of

SEED, EXCLUDED, HORIZON = "seed", "excluded", "horizon"


class HostExcludedError(PlatformError):
    """The host was excluded after its request was claimed: it is not sent."""


class HostBook:
    """The fleet's directives about hosts. An exclusion (`host`, `*.domain`, the beginning of URLs) beats a seed entry.

    `stops`: what is paused; `purging`: patterns of which everything is being deleted. Both hold beside directives.
    """

    def __init__(self, n_shards: int) -> None:
        self._n_shards = n_shards
        self._seeds: set[str] = set()
        self._excluded: set[str] = set()
        self._excluded_domains: set[str] = set()
        self._excluded_urls: dict[str, set[str]] = {}
        """Host → beginnings of URLs."""
        self._most_pages: dict[str, int] = {}
        """Of hosts on probation."""
        self.stops = Stops()
        self.purging: set[str] = set()

    def set(self, name: str, state: str) -> None:
        """Apply one directive; the last one about a name wins. Any other state lifts what was said before."""
        self.forget(name)
        if state == SEED:
            self._seeds.add(name)
        elif state != EXCLUDED:
            return
        elif "://" in name:
            self._excluded_urls.setdefault(host_of(name), set()).add(name)
        elif name.startswith("*."):
            self._excluded_domains.add(name[2:])
        else:
            self._excluded.add(name)

    def bound(self, host: str, pages: int) -> None:
        """A host of which at most `pages` pages may be known, because it is on probation; 0: no such bound."""
        if pages:
            self._most_pages[host] = pages
        else:
            self._most_pages.pop(host, None)

    def most_pages(self, host: str) -> int | None:
        """See `bound`; None where there is none."""
        return self._most_pages.get(host)

    def forget(self, name: str) -> None:
        """Drop the directive about exactly this name: `*.a.test` and `a.test` are two names."""
        self._seeds.discard(name)
        self._excluded.discard(name)
        if name.startswith("*."):
            self._excluded_domains.discard(name[2:])
        if "://" in name:
            self._excluded_urls.get(host_of(name), set()).discard(name)

    def state(self, host: str) -> str:
        if host in self._excluded or (self._excluded_domains and self._domain_excluded(host)):
            return EXCLUDED
        if self.purging and any(matches(pattern, host) for pattern in self.purging):
            return EXCLUDED
        return SEED if host in self._seeds else HORIZON

    def bars(self, host: str, url: str) -> bool:
        """Whether this URL of a host is excluded, or being purged, though its host is not."""
        if self.purging and any("://" in pattern and url.startswith(pattern) for pattern in self.purging):
            return True
        return host in self._excluded_urls and any(map(url.startswith, self._excluded_urls[host]))

    def bars_some(self, host: str) -> bool:
        """Whether there may be such URLs of `host`."""
        return host in self._excluded_urls or any("://" in pattern for pattern in self.purging)

    def _domain_excluded(self, host: str) -> bool:
        labels = host.split(".")
        return any(".".join(labels[i:]) in self._excluded_domains for i in range(len(labels)))

    def shard(self, host: str) -> int:
        return shard_of(host, self._n_shards)

    def __len__(self) -> int:
        return len(self._seeds)
