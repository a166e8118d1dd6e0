"""Which hosts may be fetched at all: the seed, minus exclusions. Everything else is horizon."""

from crawl_platform.errors import PlatformError
from crawl_platform.web.host import shard_of

SEED, EXCLUDED, HORIZON = "seed", "excluded", "horizon"


class HostExcludedError(PlatformError):
    """The host was excluded after its request was claimed: it is not sent."""


class HostBook:
    """The fleet's directives about hosts. An exclusion (`host` or `*.domain`) beats a seed entry."""

    def __init__(self, n_shards: int) -> None:
        self._n_shards = n_shards
        self._seeds: set[str] = set()
        self._excluded: set[str] = set()
        self._excluded_domains: set[str] = set()

    def set(self, name: str, state: str) -> None:
        """Apply one directive; the last one about a name wins. Any other state lifts what was said before."""
        self.forget(name)
        if state == SEED:
            self._seeds.add(name)
        elif state != EXCLUDED:
            return
        elif name.startswith("*."):
            self._excluded_domains.add(name[2:])
        else:
            self._excluded.add(name)

    def forget(self, name: str) -> None:
        """Drop the directive about exactly this name: `*.a.test` and `a.test` are two names."""
        self._seeds.discard(name)
        self._excluded.discard(name)
        if name.startswith("*."):
            self._excluded_domains.discard(name[2:])

    def state(self, host: str) -> str:
        if host in self._excluded or (self._excluded_domains and self._domain_excluded(host)):
            return EXCLUDED
        return SEED if host in self._seeds else HORIZON

    def _domain_excluded(self, host: str) -> bool:
        labels = host.split(".")
        return any(".".join(labels[i:]) in self._excluded_domains for i in range(len(labels)))

    def shard(self, host: str) -> int:
        return shard_of(host, self._n_shards)

    def __len__(self) -> int:
        return len(self._seeds)
