"""When a page is visited again, and which of those that are due comes first.

A page is due at the age at which its index reaches its host's threshold, within the bounds of the settings, and
not before it has changed with some probability: cost has a floor. Among the first pages that are due the one
with the highest index is taken; now and then the one that has been due longest, so that nothing waits behind
better pages for ever. But first come pages of groups that have hardly been watched: pages of little value that are
never checked would be believed to change like those that are.

A turn for which nothing is due is spare: it goes to the best page that may be visited at all. Due times are plans,
made with the threshold and the priors of their day; when these have changed, spare turns also look through the
host's queue, a few pages a turn, for what was planned for later than it would be today.
"""

import math

from crawl_platform.clock import DAY
from crawl_platform.frontier.hosts import Entry, HostState, Outlook
from crawl_platform.frontier.kv import OrderedKV
from crawl_platform.frontier.posterior import prior_of
from crawl_platform.frontier.priors import Priors
from crawl_platform.frontier.records import DISCOVERY, PAGE, REFRESH, UrlRecord, Waiting
from crawl_platform.scheduling.change_rate import Gamma, posterior
from crawl_platform.scheduling.lastmod import stale_index
from crawl_platform.scheduling.refresh import age_of_change, age_of_index, index_one
from crawl_platform.scheduling.threshold import floor_of, lowered, raised
from crawl_platform.settings import Refresh, Sitemaps

CHOICE = 8
"""Pages that are due among which the best is taken: about 1 µs each."""
NEAR_ENOUGH = 0.02
"""Part of a page's age for which its index is taken for what it was: it grows by twice that at most."""
MOST_FIRST = 50_000
"""Groups and values whose first visits' worth is kept at hand, some 200 bytes each."""
WATCHED = 3
"""Checks of a group from which on its pages have to be worth their turn."""
MOST_WATCHED = 64
"""Groups of a host that are given such checks: one that invents groups gets no more turns by that."""
FALLEN = 0.8
"""Part of what it was to which a threshold has to fall before the queue is looked through again."""
SITEMAPS = Sitemaps()
WORTH = 8.0
"""Pages that a sitemap or feed counts for among those that are due: it tells of many."""
LEAST_THRESHOLD = 1e-9
"""Days (0.1 ms): where the settings put no floor."""


class Revisits:
    def __init__(self, settings: Refresh, sitemaps: Sitemaps = SITEMAPS) -> None:
        self._settings = settings
        self._sitemaps = sitemaps
        self.sitemap_prior = prior_of(settings.prior_shape, sitemaps.prior_rate)
        self.priors = Priors(prior_of(settings.prior_shape, settings.prior_rate))
        self.floor = max(floor_of(settings.interval_min / DAY, settings.least_change), LEAST_THRESHOLD)
        share = settings.oldest_first_share
        self._first: dict[tuple[str, int, float, int], float] = {}
        """What first visits are worth by host, group, value and kind, under the priors of this version."""
        self._first_version = 0
        self._oldest_every = round(1 / share) if share > 0 else 0

    def belief(self, shard: int, host: str, page: UrlRecord | Waiting) -> Gamma:
        return posterior(self.prior(shard, host, page), page.rate_a, page.rate_b)

    def prior(self, shard: int, host: str, page: UrlRecord | Waiting) -> Gamma:
        return self.priors.of(shard, host, page.group) if page.kind == PAGE else self.sitemap_prior

    def interval(self, shard: int, host: str, page: UrlRecord | Waiting, threshold: float) -> float:
        """Age (seconds) at which the page is due for its next visit. A host whose visits have not shown yet what
        they are worth (`threshold` 0) is visited after the mean time between changes."""
        if page.kind != PAGE:
            return self._sitemap_interval(shard, host, page)
        belief = self.belief(shard, host, page)
        longest, least = self._settings.interval_max, self._least(belief, page.value)
        if page.value <= 0.0:
            return least
        if threshold <= 0.0:
            return max(least, min(DAY / belief.mean, longest))
        return max(least, age_of_index(*belief, threshold / page.value, longest / DAY) * DAY)

    def _sitemap_interval(self, shard: int, host: str, page: UrlRecord | Waiting) -> float:
        """A sitemap or feed is read again after the mean time between its changes: what it is worth depends on the
        pages that it tells of, so no threshold of pages is asked."""
        settings = self._sitemaps
        mean = DAY / self.belief(shard, host, page).mean
        return max(settings.interval_min, min(mean, settings.interval_max))

    def _least(self, belief: Gamma, value: float) -> float:
        """Age (seconds) below which a visit is not worth its cost, though there were room for all."""
        settings = self._settings
        if value <= 0.0:
            return settings.interval_max
        age = age_of_change(*belief, settings.least_change) * DAY
        return min(max(age, settings.interval_min), settings.interval_max)

    # claims

    def best(self, state: HostState, kv: OrderedKV, now: float) -> Entry | None:
        """The page to visit now among those that are due; None if none is."""
        limit = int(now * 1000)
        due = [entry for entry in state.ahead(kv, REFRESH, CHOICE) if entry.rank <= limit]
        if len(due) < 2 or self._oldest_turn(state):
            return due[0] if due else None
        unwatched = next((entry for entry in due if self._unwatched(state, entry.waiting)), None)
        return unwatched or max(due, key=lambda entry: self._index(state, entry, now))

    def _unwatched(self, state: HostState, page: UrlRecord | Waiting) -> bool:
        checks = state.checks
        room = page.group in checks or len(checks) < MOST_WATCHED
        return page.kind == PAGE and room and checks.get(page.group, 0) < WATCHED

    def _oldest_turn(self, state: HostState) -> bool:
        return self._oldest_every > 0 and (state.refresh_turns + 1) % self._oldest_every == 0

    def _index(self, state: HostState, entry: Entry, now: float) -> float:
        if self._is_near_enough(entry, now):
            return entry.index
        known, page = self._outlook(state, entry), entry.waiting
        age = now - page.last_success_at
        index = index_one(known.a, known.b, age / DAY, page.value)
        if page.kind != PAGE:
            index *= WORTH
        elif page.claimed:
            oldest = index_one(known.a, known.b, self._settings.interval_max / DAY, page.value)
            return stale_index(index, oldest, state.record.claims.chance)
        entry.index, entry.index_until = index, now + age * NEAR_ENOUGH
        return index

    def spare(self, state: HostState, kv: OrderedKV, now: float) -> Entry | None:
        """For a host with nothing to do: the best of the pages that come next and of a few others, if a visit
        may be made at all."""
        able = [
            entry for entry in state.ahead(kv, REFRESH, CHOICE) if self._outlook(state, entry).able_at <= now
        ]
        if self._to_look_through(state, now):
            able += self._others(state, kv, now)
        if not able:
            return None
        best = max(able, key=lambda entry: self._index(state, entry, now))
        before = state.threshold or self._index(state, best, now)
        state.threshold = max(lowered(before, state.record.fetched), self.floor)
        return best

    def worth(self, state: HostState, kv: OrderedKV, now: float) -> tuple[float, float]:
        """What the next visit of the host is worth (days of freshness), and the age of its page in seconds. A first
        visit is worth what one of the longest interval is."""
        best, age, limit = 0.0, DAY, int(now * 1000)
        ahead = state.ahead(kv, REFRESH, CHOICE)
        if ahead and ahead[0].rank > limit:
            best = state.threshold
        for entry in ahead:
            if self._is_near_enough(entry, now):
                index = entry.index
            elif entry.rank <= limit or self._outlook(state, entry).able_at <= now:
                index = self._index(state, entry, now)
            else:
                continue
            if index > best:
                best, age = index, now - entry.waiting.last_success_at
        new = state.head(kv, DISCOVERY)
        if new is not None and new.rank <= limit and (index := self._first_index(state, new.waiting)) > best:
            best, age = index, self._settings.interval_max
        return best, age

    def _first_index(self, state: HostState, page: Waiting) -> float:
        """What a first visit is worth; pages of a group are all alike."""
        if self._first_version != self.priors.version or len(self._first) > MOST_FIRST:
            self._first, self._first_version = {}, self.priors.version
        like = state.host, page.group, page.value, page.kind
        index = self._first.get(like)
        if index is None:
            a, b = self.prior(state.shard, state.host, page)
            index = self._first[like] = index_one(a, b, self._settings.interval_max / DAY, page.value)
        return index

    def _is_near_enough(self, entry: Entry, now: float) -> bool:
        """Whether the index of a page that may be visited is known as well as needed."""
        return (
            now < entry.index_until
            and entry.outlook is not None
            and entry.outlook.version == self.priors.version
        )

    def _may_fall(self, state: HostState) -> bool:
        return state.threshold == 0.0 or state.threshold > self.floor

    def _to_look_through(self, state: HostState, now: float) -> bool:
        """Whether its queue may hold pages that were planned for later than they would be today."""
        look = state.look
        if look.cursor is not None or look.priors != self.priors.version or look.again_at <= now:
            return True
        return 0.0 < state.threshold < FALLEN * look.threshold

    def _others(self, state: HostState, kv: OrderedKV, now: float) -> list[Entry]:
        """Those of the next part of the host's queue that may be visited. Once through, it is known when the
        first of the rest may be."""
        look = state.look
        if look.cursor is None:
            look.threshold = state.threshold or math.inf
            look.priors, look.again_at = self.priors.version, math.inf
        entries, look.cursor = state.after(kv, REFRESH, look.cursor, CHOICE)
        able_at = [(self._outlook(state, entry).able_at, entry) for entry in entries]
        if self._may_fall(state):
            look.again_at = min([look.again_at, *(at for at, _ in able_at)])
        return [entry for at, entry in able_at if at <= now]

    def _outlook(self, state: HostState, entry: Entry) -> Outlook:
        known, version = entry.outlook, self.priors.version
        if known is None or known.version != version:
            page = entry.waiting
            belief = self.belief(state.shard, state.host, page)
            able_at = math.inf
            if not page.fails and page.last_success_at > 0.0 and page.kind == PAGE:
                able_at = page.last_success_at + self._least(belief, page.value)
            known = entry.outlook = Outlook(version, *belief, able_at)
        return known

    # what turns teach

    def taken(self, state: HostState, page: UrlRecord, now: float, turn: float) -> None:
        """A page that was due is visited: how late it is tells what visits of this host are worth."""
        if page.fails or page.last_success_at == 0.0 or page.kind != PAGE or page.pulled:
            return
        if self._unwatched(state, page):
            state.checks[page.group] = state.checks.get(page.group, 0) + 1
            return
        due = page.rank / 1000
        belief = self.belief(state.shard, state.host, page)
        index = index_one(*belief, (now - page.last_success_at) / DAY, page.value)
        planned = max(due - page.last_success_at, 0.0)
        state.threshold = raised(state.threshold, max(index, self.floor), now - due, planned, turn)
        state.look.threshold = max(state.look.threshold, state.threshold)

    def next_look(self, state: HostState, ready: float, due: float) -> float:
        """When (boottime) to give the host its next turn: it may be served from `ready` on, and at `due` it has
        work; before that there may be work to find."""
        if due <= ready:
            return ready
        if state.look.priors != self.priors.version:
            return ready
        looks = state.look.cursor is not None or self._may_fall(state)
        return min(due, max(ready, state.rest_until)) if looks else due

    def rests(self, state: HostState, boot: float, due: float, turn: float, clocks: float) -> float:
        """The host was found to have nothing to do before `due` (boottime); returns when it looks again.

        `clocks`: boottime less UTC.
        """
        if state.look.cursor is not None:
            at = min(due, boot + turn)
        elif self._may_fall(state):
            at = min(due, max(state.look.again_at + clocks, boot + turn))
        else:
            at = due
        state.rest_until = at
        return at
