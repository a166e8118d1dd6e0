"""URLs that pages, sitemaps and others name: which of them enter, in one plan.

Theory of operation. Nearly all links lead to pages that are known, so that is found out for many at once (`foresee`):
one look at the seen set, and one at the store, in the order of its keys, for what the seen set isn't sure of. What was
found holds for the whole plan, since the seen set follows the store only when the plan is absorbed; what the plan
itself lets in, or puts in otherwise, is in the overlay's records. What holds for all URLs of one origin is worked out
once per plan (`Door`). Only new URLs are looked at one by one, first by what costs least.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

from crawl_platform.admission.hosts import EXCLUDED, HORIZON
from crawl_platform.admission.scopes import Scope
from crawl_platform.frontier.frontier import Frontier
from crawl_platform.frontier.hosts import Move
from crawl_platform.frontier.lease import Found
from crawl_platform.frontier.listed import Listed
from crawl_platform.frontier.overlay import Overlay, deadline_of
from crawl_platform.frontier.parameter_order import OrderEvidence
from crawl_platform.frontier.ports import over_ports
from crawl_platform.frontier.records import (
    DEADLINE,
    DISCOVERY,
    FRESHLANE,
    PAGE,
    QUEUED,
    HostRecord,
    UrlRecord,
    encode,
    encode_found,
    queue_key,
    url_prefix,
    waiting,
    waiting_found,
)
from crawl_platform.frontier.series import counted, trapped
from crawl_platform.scheduling.templates import Folders, group_id, learn, template_of
from crawl_platform.settings import Frontier as Settings
from crawl_platform.settings import HostSettings
from crawl_platform.web.traps import Series, is_harmless, series_of, trap_reason
from crawl_platform.web.url import host_of

SURFACE_ROOM = 2
"""A host in surface mode may grow to this many times its page budget: a root page that shows new links at every
visit has no end either, and what a host takes of memory and disk must have one."""


class Door:
    """What is the same for all URLs of one origin, as long as no host is admitted."""

    __slots__ = (
        "asks", "barred", "closed", "folders", "host", "moves", "ours", "places", "prefix", "record", "rules", "scope",
        "shard",
    )  # fmt: skip

    def __init__(
        self, host: str, shard: int, closed: str, ours: bool, barred: bool, rules: HostSettings, scope: Scope
    ) -> None:
        self.host = host
        self.shard = shard
        self.closed = closed
        """Why none of them enters; empty if some may."""
        self.ours = ours
        self.asks = ours and not closed
        """Whether it matters which of them are known."""
        self.barred = barred
        """Some URLs of the host are excluded."""
        self.rules = rules
        self.scope = scope
        self.prefix = url_prefix(shard, host)
        """Of the keys of its URLs."""
        self.record: HostRecord | None = None
        """Its record in the plan, once a URL of it is new."""
        self.moves: list[Move] = []
        """Those of its host in the plan, from then on."""
        self.folders = Folders()
        self.places: dict[tuple[str, int, int, float], Place] = {}
        """By template, depth, hops and value."""


class Place(NamedTuple):
    """What new pages of one group, depth and value have in common: all but the URL. `record` and `waiting` are encoded,
    `queue` is what the key of the place begins with."""

    record: bytes
    rank: int
    queue: bytes
    waiting: bytes
    lane: int = DISCOVERY
    deadline: int = 0


Stranger = tuple[Door, bytes, bytes, bytes]
"""A URL of ours that is not in the store: its door, itself, its key, and the digest of that."""


class Links:
    """The part of one plan that is about discoveries."""

    def __init__(self, frontier: Frontier, overlay: Overlay, listed: Listed, now: float) -> None:
        self._frontier = frontier
        self._over = overlay
        self._plan = overlay.plan
        self._listed = listed
        self._now = now
        self._doors: dict[str, Door] = {}
        self._looked: dict[str, Stranger | None] = {}
        """URLs of our hosts that were looked up; None: it is in the store."""
        self._foreign: set[str] = set()
        self.fresh = 0
        """How many of the next new pages go to the freshlane."""

    # what is known

    def foresee(self, urls: Iterable[str]) -> None:
        """Look up at once which of `urls` are known."""
        looked, fresh, keys = self._looked, list[tuple[Door, str, bytes]](), list[bytes]()
        for url in urls:
            if url not in looked and (door := self._door(url)).asks:
                if door.barred and self._frontier.book.bars(door.host, url):
                    continue
                looked[url] = None
                text = url.encode()
                fresh.append((door, url, text))
                keys.append(door.prefix + text)
        if not fresh:
            return
        known, digests = self._frontier.seen.look(keys)
        forms = []
        for place, (door, url, text) in enumerate(fresh):
            if not known[place]:
                looked[url] = door, text, keys[place], digests[place]
                if "?" in url and (form := self._host_form(door, url)) != url:
                    forms.append(form)
        self.foresee(forms)

    def _stranger(self, url: str) -> Stranger | None:
        """None for a URL of ours that is in the store, or in the plan."""
        if url not in self._looked:
            self.foresee((url,))
        stranger = self._looked[url]
        if stranger is not None and stranger[2] in self._plan.batch.changes:
            self._looked[url] = stranger = None
        return stranger

    def _door(self, url: str) -> Door:
        end = url.find("/", 8)
        origin = url[:end] if end > 0 else url
        door = self._doors.get(origin)
        if door is None:
            door = self._doors[origin] = self._opened(host_of(url))
        return door

    def _opened(self, host: str) -> Door:
        frontier = self._frontier
        state, shard = self._over.state(host), frontier.book.shard(host)
        return Door(
            host,
            shard,
            state if state in (HORIZON, EXCLUDED) else "",
            shard in frontier.shards,
            frontier.book.bars_some(host),
            frontier.rules.of(host),
            frontier.rules.scope(host),
        )

    def admitted(self) -> None:
        """A host has entered the seed with this plan."""
        self._doors.clear()
        self._looked.clear()

    # entries

    def enter(self, found: Found, by: str | None = None, *, as_it_is: bool = False) -> str:
        """Let a URL in if it belongs: past boundary, traps, budget and the seen set. `by`: the host that says there is
        such a page, "" for one elsewhere, None for nobody. `as_it_is`: not in the form that the host's rules give it.

        Returns what became of it: new, seen, foreign, horizon, excluded, or a trap's name.
        """
        if self._looked.get(found.url, self) is None and found.kind == PAGE and not found.sitemap:
            verdict = "seen"
        else:
            verdict = self._verdict(found, by, as_it_is)
        if verdict not in ("new", "foreign"):
            self._plan.turned_away[verdict] = self._plan.turned_away.get(verdict, 0) + 1
        return verdict

    def _verdict(self, found: Found, by: str | None, as_it_is: bool) -> str:
        if not as_it_is and "?" in found.url and (form := self.form(found.url)) != found.url:
            found = replace(found, url=form)
        door = self._door(found.url)
        if door.closed:
            return door.closed
        if door.barred and self._frontier.book.bars(door.host, found.url):
            return EXCLUDED
        if not door.ours:
            return self._pass_on(door, found)
        stranger = self._stranger(found.url)
        if stranger is None:
            self._listed.again(door.host, found)
            return "seen"
        return self._admit(
            stranger, found, by is not None and by != door.host and door.host not in found.vouched
        )

    # the form in which a URL is known

    def form(self, url: str) -> str:
        """The form in which the canonical `url` enters: as `Frontier.form_of`, with what this plan has learnt."""
        if "?" not in url:
            return url
        door = self._door(url)
        form = self._host_form(door, url)
        if form == url or not door.asks or (door.barred and self._frontier.book.bars(door.host, url)):
            return form
        return url if self._stranger(url) is None else form

    def _host_form(self, door: Door, url: str) -> str:
        return self._frontier.host_form(door.host, url, self.order(door.host))

    def order(self, host: str) -> OrderEvidence:
        """What is known about the order of parameters at `host`."""
        record, state = self._plan.hosts.get(host), self._frontier.hosts.get(host)
        if record is None and state is not None:
            record = state.record
        return record.order if record is not None else OrderEvidence()

    # new ones

    def _pass_on(self, door: Door, found: Found) -> str:
        """A URL of another cell's host. Settings are the same in all cells, so what its shape keeps out there need not
        travel: a URL can be as long as a page."""
        told = found.kind == PAGE and not found.sitemap and found.url.encode() in self._frontier.sent
        if told or found.url in self._foreign:
            return "seen"
        reason = outside(door, found) or trap_reason(
            found.url, door.rules.frontier, door.rules.urls.traps_off
        )
        if reason:
            return reason
        self._foreign.add(found.url)
        self._plan.foreign.setdefault(door.shard, []).append(found)
        return "foreign"

    def _admit(self, stranger: Stranger, found: Found, abroad: bool) -> str:
        """Let a URL of ours in that is not known, or say why not."""
        door, url = stranger[0], found.url
        if beyond := outside(door, found):
            return beyond
        record = door.record
        if record is None:
            record = door.record = self._over.host(door.host)
            door.moves = self._over.moves(door.host)
        limits = door.rules.frontier
        plain = is_harmless(url, limits)
        series = () if plain else tuple(series_of(url, limits))
        reason = (
            (found.kind != PAGE and self._listed.refusal(door.host, found))
            or (None if plain else self._trapped(door, record, url, series))
            or over_probation(record, self._frontier.book.most_pages(door.host))
            or over_budget(record, found, abroad, limits)
            or (None if plain else over_ports(record, url, abroad))
        )
        if reason:
            return reason
        if abroad:  # what others say about a host must not teach us anything about it
            template = template_of(url, record.shapes)
        else:
            if series:
                record.series = counted(record.series, series)
            record.shapes, template = learn(url, record.shapes, door.folders)
        record.known += 1
        record.queued += 1
        record.from_abroad += abroad
        self._store(stranger, found, template)
        return "new"

    def _store(self, stranger: Stranger, found: Found, template: str) -> None:
        """Its record and its place in the queue."""
        door, text, key, digest = stranger
        if self.fresh and found.kind == PAGE:
            self.fresh -= 1
            entry = self._entry(door, found, template, found.value)
            entry.lane, entry.rank, entry.deadline = FRESHLANE, int(self._now * 1000), 0
            place = _place(door, entry)
        elif found.kind == PAGE and not found.sitemap and not found.lastmod:
            ahead = self._ahead(found)
            like = template, found.depth, found.hops, ahead
            if like not in door.places:
                entry = self._entry(door, found, template, ahead)
                plain = not entry.deadline
                door.places[like] = _place_found(door, entry) if plain else _place(door, entry)
            place = door.places[like]
        else:
            entry = self._entry(door, found, template, self._ahead(found))
            self._listed.entered(door.host, entry, found)
            place = _place(door, entry)
        plan = self._plan
        plan.new_urls += 1
        plan.digests.append(digest)
        plan.batch.changes[key] = place.record
        plan.batch.changes[place.queue + text] = place.waiting
        door.moves.append(Move(place.lane, place.rank, found.url, place.waiting))
        if place.deadline:
            deadline = queue_key(door.shard, door.host, DEADLINE, place.deadline, found.url)
            plan.batch.changes[deadline] = place.waiting
            door.moves.append(Move(DEADLINE, place.deadline, found.url, place.waiting))

    def _ahead(self, found: Found) -> float:
        """The value by which it is queued."""
        interest = self._frontier.interest
        if interest is None or found.anchor is None:
            return found.value
        return found.value * interest(found.url, found.anchor)

    def _entry(self, door: Door, found: Found, template: str, ahead: float) -> UrlRecord:
        """The record of a new URL, queued as if it were worth `ahead`."""
        entry = UrlRecord(
            state=QUEUED,
            lane=DISCOVERY,
            rank=max(self._over.discovery_rank(ahead), 0),
            depth=found.depth,
            hops=found.hops,
            # More than 1 is a place in the queue, not a worth: by that revisits are planned, also those of others.
            value=min(found.value, 1.0),
            group=group_id(door.host, template),
            discovered_at=self._now,
            kind=found.kind,
        )
        entry.deadline = deadline_of(entry, door.rules.promises)
        return entry

    def _trapped(self, door: Door, record: HostRecord, url: str, series: Sequence[Series]) -> str | None:
        reason = trapped(url, door.rules, record.series, series)
        if reason is not None:
            if reason not in record.turned_away:
                self._plan.first_traps.append((door.host, reason, url))
            record.turned_away = {**record.turned_away, reason: record.turned_away.get(reason, 0) + 1}
        return reason


def _queue(door: Door, entry: UrlRecord) -> bytes:
    return queue_key(door.shard, door.host, entry.lane, entry.rank, "")


def _place(door: Door, entry: UrlRecord) -> Place:
    waits = encode(waiting(entry))
    return Place(encode(entry), entry.rank, _queue(door, entry), waits, entry.lane, entry.deadline)


def _place_found(door: Door, entry: UrlRecord) -> Place:
    """Of one that was found and no more."""
    return Place(encode_found(entry), entry.rank, _queue(door, entry), waiting_found(entry))


def outside(door: Door, found: Found) -> str:
    """Why a URL is outside the scope of its host. Sitemaps and feeds are read for the pages that they list."""
    return door.scope.reason(found.url, found.depth) if found.kind == PAGE else ""


def over_probation(record: HostRecord, most: int | None) -> str | None:
    """Why a URL is more than may be known of a host on probation. What is turned away is in the lake's links: it is
    handed over again when the host has passed."""
    return "on_probation" if most is not None and record.known >= most else None


def over_budget(record: HostRecord, found: Found, abroad: bool, settings: Settings) -> str | None:
    """Why a URL is more than may be known of its host, which goes into surface mode with the last one."""
    if found.hops > 0 and found.hops > settings.max_hops:
        return "too_many_redirects"
    if abroad and record.from_abroad >= settings.page_budget * settings.abroad_share:
        return "over_budget_abroad"
    if record.known >= settings.page_budget:
        record.surface = True
    if record.known >= settings.page_budget * SURFACE_ROOM:
        return "over_budget"
    return "surface_mode" if record.surface and found.depth > settings.surface_depth else None
