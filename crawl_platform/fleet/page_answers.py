"""What an answer to a page's request means: digest → result for the frontier and rows for the lake."""

from crawl_platform.admission.preferences import dropped_by_page
from crawl_platform.digest import Digest, digest
from crawl_platform.fetch.client import Response
from crawl_platform.fetch.outcome import DISPOSITIONS, Outcome
from crawl_platform.fleet.epochs import Series
from crawl_platform.fleet.parts import Parts, redirect_target
from crawl_platform.fleet.rows import (
    LinkSet,
    body_hash,
    fetch_row,
    link_block,
    link_row,
    page_facts,
    page_row,
)
from crawl_platform.fleet.stages import DIGEST
from crawl_platform.fleet.uses import Uses, note_tdmrep, uses_of, who_asked
from crawl_platform.frontier.lease import Found, Lease, PageResult, value_at
from crawl_platform.frontier.posterior import posterior_after, predicted_change
from crawl_platform.frontier.records import FASTLANE, FEED, FRESHLANE, KINDS, SITEMAP
from crawl_platform.scheduling.change_rate import Gamma
from crawl_platform.scheduling.templates import group_id, template_of
from crawl_platform.web.url import canonicalize

MOST_FEEDS = 5
"""Feeds taken from one page."""
MOST_POINTERS = 100
"""Neighbours in a series and other languages that one page may name in its head."""


class PageAnswers:
    def __init__(self, parts: Parts) -> None:
        self._p = parts
        self._looked_up: tuple[Lease | None, str] = None, ""
        """The last lease whose template was looked up: each is asked for several times."""

    def take(self, lease: Lease, response: Response) -> None:
        if response.outcome is Outcome.NOT_MODIFIED and lease.record.body_hash:
            self._unchanged(lease, response, lease.record.body_hash)
        elif response.outcome is Outcome.OK:
            hashed = body_hash(response.body)
            if hashed == lease.record.body_hash:
                self._unchanged(lease, response, hashed)
            else:
                self._content(lease, response, hashed)
        elif response.outcome is Outcome.REDIRECT:
            self._redirect(lease, response)
        else:
            self.failed(lease, response)

    def _result(self, lease: Lease, response: Response, **facts: object) -> PageResult:
        disposition = DISPOSITIONS[response.outcome]
        return PageResult(lease, response.started_at, disposition, str(response.outcome), **facts)  # type: ignore[arg-type]

    def _deliver(
        self, lease: Lease, result: PageResult, fetch_id: str, response: Response, **facts: object
    ) -> Series:
        """Put the result and its fetch row into the epoch of the lease's lane."""
        p = self._p
        series = p.fast if lease.lane in (FASTLANE, FRESHLANE) else p.bulk
        window = p.frontier.windows.in_force(lease.shard, result.at)
        rates = result.posterior or (lease.record.rate_a, lease.record.rate_b)
        template = self._template(lease)
        result.group = group_id(lease.host, template)
        row = fetch_row(
            fetch_id, KINDS[lease.record.kind], lease, response, p.origin,
            **page_facts(lease, window.window_id if window else None),
            group_id=result.group, template=template, rate_a=rates[0], rate_b=rates[1],
            predicted_change=predicted_change(lease.record, result.at, self._prior(lease)), **facts,
        )  # fmt: skip
        series.open.rows.add("fetches", row, 400)
        series.open.pages.append(result)
        series.touch(2 + 2 * len(result.found))
        return series

    def _keep(self, lease: Lease, result: PageResult, response: Response) -> None:
        """What a success brings for the next conditional request."""
        result.etag = response.header("etag")[:500] or lease.record.etag
        result.last_modified = response.header("last-modified")[:100] or lease.record.last_modified

    def _posterior(self, lease: Lease, changed: bool | None, at: float) -> tuple[float, float]:
        return posterior_after(lease.record, changed, at, self._prior(lease))

    def _prior(self, lease: Lease) -> Gamma:
        group = group_id(lease.host, self._template(lease))
        return self._p.frontier.revisits.priors.of(lease.shard, lease.host, group)

    def _template(self, lease: Lease) -> str:
        """The URL's group by what its host has taught so far: not always the one that it was queued with."""
        if self._looked_up[0] is not lease:
            state = self._p.frontier.hosts.get(lease.host)
            self._looked_up = lease, template_of(lease.url, state.record.shapes if state is not None else {})
        return self._looked_up[1]

    def _unchanged(self, lease: Lease, response: Response, hashed: int) -> None:
        record = lease.record
        result = self._result(lease, response, changed=False, body_hash=hashed, links_hash=record.links_hash)
        result.fingerprint, result.link_set = record.fingerprint, record.link_set
        result.posterior = self._posterior(lease, False, result.at)
        self._keep(lease, result, response)
        self._stop_if_refused(result, uses_of(self._p, lease, response, None))
        self._deliver(
            lease, result, self._p.fetch_id(), response,
            changed=False, fingerprint=record.fingerprint or None, body_hash=f"{hashed:016x}",
            link_set=record.link_set or None,
        )  # fmt: skip

    def _content(self, lease: Lease, response: Response, hashed: int) -> None:
        record = lease.record
        agent = who_asked(self._p.settings, response)
        kind = response.header("content-type") or None
        with self._p.telemetry.stages.of(DIGEST):
            facts = digest(response.body, lease.url, kind, response.headers, agent)
        fetch_id = self._p.fetch_id()
        changed = facts.fingerprint != record.fingerprint if record.fingerprint else None
        links = self._link_set(lease.host, facts)
        links_hash = _hash_links(links)
        same_links = bool(record.link_set) and links_hash == record.links_hash
        result = self._result(
            lease, response, changed=changed, body_hash=hashed, links_hash=links_hash,
            fingerprint=facts.fingerprint, link_set=record.link_set if same_links else fetch_id,
        )  # fmt: skip
        result.posterior = self._posterior(lease, changed, result.at)
        promised = self._p.frontier.rules.of(lease.host).promises.types
        result.types = tuple(name for name in facts.entity_types if name in promised) if promised else ()
        self._keep(lease, result, response)
        uses = uses_of(self._p, lease, response, facts)
        # All rows are made before the first is delivered: an error in one must not leave half of a page.
        block = None
        if not same_links:
            result.found = self._followed(lease, facts, links)
            if links:
                block = link_block(fetch_id, lease.url, result.at, links, anchors=uses.keeps_anchors)
        self._stop_if_refused(result, uses)
        note_tdmrep(self._p, lease, response)
        page = uses.apply(page_row(fetch_id, lease, response, facts)) if changed is not False else None
        series = self._deliver(
            lease, result, fetch_id, response,
            changed=changed, fingerprint=facts.fingerprint, body_hash=f"{hashed:016x}", link_set=result.link_set,
        )  # fmt: skip
        if block is not None:
            weight = len(block) * (200 + len(lease.url)) + sum(map(len, block.columns["dst_url"]))
            series.open.rows.add_block("links", block, weight)
        if page is not None:
            series.open.rows.add("pages", page, 500 + len(response.body))

    def _known_as(self, url: str) -> str | None:
        """The form in which the frontier knows the page of `url`; None if it is no page of the web."""
        canonical = canonicalize(url)
        return None if canonical is None else self._p.frontier.form_of(canonical)

    def _link_set(self, host: str, facts: Digest) -> LinkSet:
        """The page's links by canonical target, so that a session id in a URL doesn't make a new set."""
        links: LinkSet = {}
        most = self._p.frontier.limits(host).max_urls_per_page
        form_of = self._p.frontier.form_of
        for link in facts.links:
            target = canonicalize(link.url)
            if target is None:
                continue
            if "?" in target:
                target = form_of(target)
            key = target, link.position, link.rel
            if key not in links:
                links[key] = link.nofollow, link.anchor
                if len(links) >= most:
                    break
        return links

    def _followed(self, lease: Lease, facts: Digest, links: LinkSet) -> list[Found]:
        """What of a new link set may enter the frontier."""
        depth = lease.record.depth + 1
        value = value_at(depth)
        follow: dict[str, Found] = {}
        told = self._p.frontier.interest is not None
        for (target, _, _), (barred, anchor) in links.items():
            if not barred and target not in follow:
                follow[target] = Found(target, depth, value, anchor=anchor if told else None)
        pages = () if facts.nofollow else (*facts.next, *facts.prev, *[url for _, url in facts.hreflang])
        for pointer in (facts.meta_refresh, facts.canonical, *facts.frames, *pages[:MOST_POINTERS]):
            target_url = self._known_as(pointer) if pointer else None
            if target_url is not None:
                follow.setdefault(target_url, Found(target_url, depth, value, lease.record.hops + 1))
        settings = self._p.frontier.rules.of(lease.host).sitemaps
        if facts.kind == "sitemap" and settings.sitemaps:
            follow[lease.url] = Found(lease.url, depth, value, kind=SITEMAP, sitemap=lease.url)
        if facts.kind == "feed" and settings.feeds:
            follow[lease.url] = Found(lease.url, depth, value, kind=FEED, sitemap=lease.url)
        if settings.feeds:
            for url in facts.feeds[:MOST_FEEDS]:
                if (feed := self._known_as(url)) is not None:
                    follow[feed] = Found(feed, depth, value, kind=FEED)
        return list(follow.values())

    def _redirect(self, lease: Lease, response: Response) -> None:
        target = redirect_target(lease.url, response)
        if target is None:
            self.failed(lease, response)
            return
        record = lease.record
        result = self._result(lease, response)
        result.found = [Found(target, record.depth, record.value, record.hops + 1)]
        fetch_id = self._p.fetch_id()
        result.link_set = fetch_id
        form = self._p.frontier.form_of(target)
        followed = target if form == lease.url else form
        row = link_row(fetch_id, lease.url, followed, result.at, "redirect", "", False, "")
        series = self._deliver(lease, result, fetch_id, response, redirect_to=target, link_set=fetch_id)
        series.open.rows.add("links", row)

    def failed(self, lease: Lease, response: Response) -> None:
        result = self._result(lease, response)
        facts = {}
        if response.outcome is Outcome.PAYMENT_REQUIRED:
            word, result.disposition = self._p.spending.answer(lease.host, response.headers)
            result.reason, facts = word or result.reason, {"payment": word or None}
        note_tdmrep(self._p, lease, response)
        self._deliver(lease, result, self._p.fetch_id(), response, **facts)

    def _stop_if_refused(self, result: PageResult, uses: Uses) -> None:
        """A page that refuses its use is not fetched again where that is the policy for its host."""
        if not uses.treatment.again:
            policy = self._p.frontier.rules.of(result.lease.host).citizenship
            result.disposition, result.reason = "refused", dropped_by_page(policy)


def _hash_links(links: LinkSet) -> int:
    """Order and anchors don't count: the same links again are the same set."""
    lines = [  # a flag that is formatted takes as long as all the rest
        f"{target}\t{where}\t{rel}\tTrue" if barred else f"{target}\t{where}\t{rel}\tFalse"
        for (target, where, rel), (barred, _) in links.items()
    ]
    lines.sort()
    return body_hash("\n".join(lines).encode())
