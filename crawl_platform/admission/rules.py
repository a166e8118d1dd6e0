"""Settings of one host: the crawl's own, with the `[[hosts]]` entries that mean it."""

from collections.abc import Iterable
from functools import lru_cache

from crawl_platform.settings import HostSettings, Settings
from crawl_platform.web.host import matches

CACHED = 20_000
"""Hosts whose settings are kept at hand. Most share one object: that of the crawl without any rule."""


class HostRules:
    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self.plain = settings.with_rules(())
        """The crawl's own, for what is no single host's."""
        self._of = lru_cache(CACHED)(self._compute)

    def of(self, host: str) -> HostSettings:
        return self._of(host) if self._settings.hosts else self.plain

    def _compute(self, host: str) -> HostSettings:
        rules = [rule for rule in self._settings.hosts if matches(rule.match, host)]
        return self._settings.with_rules(rules) if rules else self.plain

    def promised(self, hosts: Iterable[str]) -> dict[str, float]:
        """Seconds within which the pages of a host are promised to be fetched again, for hosts with a promise."""
        within = {host: self.of(host).promises.within for host in hosts}
        return {host: seconds for host, seconds in within.items() if seconds > 0}

    def sets(self, section: str, name: str) -> bool:
        """Whether any rule sets this."""
        return any(name in getattr(rule, section) for rule in self._settings.hosts)
