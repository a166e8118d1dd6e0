"""Settings of one host: the crawl's own, with the `[[hosts]]` entries that mean it."""

from collections.abc import Iterable
from functools import lru_cache

from crawl_platform.admission.scopes import Scope
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
        self._scopes: dict[tuple[object, ...], Scope] = {}
        """By what they are made of: as many as there are combinations of rules."""
        self._scope_of = lru_cache(CACHED)(self._compute_scope)
        self._plain_scope = self._compute_scope("")

    def of(self, host: str) -> HostSettings:
        return self._of(host) if self._settings.hosts else self.plain

    def _compute(self, host: str) -> HostSettings:
        rules = [rule for rule in self._settings.hosts if matches(rule.match, host)]
        return self._settings.with_rules(rules) if rules else self.plain

    def scope(self, host: str) -> Scope:
        """Which pages of the host belong to the crawl."""
        return self._scope_of(host) if self._settings.hosts else self._plain_scope

    def _compute_scope(self, host: str) -> Scope:
        settings = self.of(host)
        scope, deepest = settings.scope, settings.frontier.max_depth
        like = (scope.include, scope.exclude, tuple(scope.depths.items()), deepest)
        if like not in self._scopes:
            self._scopes[like] = Scope(scope, deepest)
        return self._scopes[like]

    def promised(self, hosts: Iterable[str]) -> dict[str, float]:
        """Seconds within which the pages of a host are promised to be fetched again, for hosts with a promise."""
        within = {host: self.of(host).promises.within for host in hosts}
        return {host: seconds for host, seconds in within.items() if seconds > 0}

    def promised_first(self, hosts: Iterable[str]) -> dict[str, float]:
        """The same for first visits, after the discovery."""
        within = {host: self.of(host).promises.first_within for host in hosts}
        return {host: seconds for host, seconds in within.items() if seconds > 0}

    def sets(self, section: str, name: str) -> bool:
        """Whether any rule sets this."""
        return any(name in getattr(rule, section) for rule in self._settings.hosts)
