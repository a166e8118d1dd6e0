"""Why a claimed URL is not fetched after all: what has come to be since it entered its queue."""

from crawl_platform.admission.hosts import EXCLUDED, HostBook
from crawl_platform.admission.preferences import BY_PAGE, dropped_by_page
from crawl_platform.admission.rules import HostRules
from crawl_platform.admission.service import Answer, Reason
from crawl_platform.frontier.hosts import HostState
from crawl_platform.frontier.listed import SITEMAP_BUDGET, over_budget
from crawl_platform.frontier.records import FASTLANE, PAGE, UrlRecord

BELOW_SURFACE = "surface_mode"
"""Why a page is dropped that lies too deep for what its host may have."""


class Refusals:
    def __init__(self, book: HostBook, rules: HostRules) -> None:
        self._book = book
        self._rules = rules

    def reason(
        self, state: HostState, url: str, lane: int, record: UrlRecord, answer: Answer, now: float
    ) -> str:
        """Why `url` of the host is not fetched; empty if it is. What holds for good comes first. `answer`: what its
        site says."""
        if self._book.bars(state.host, url):
            return EXCLUDED
        if lane != FASTLANE and (outside := self._outside(state.host, url, record)):
            return outside
        if lane != FASTLANE and self._below_surface(state, record):
            return BELOW_SURFACE
        if answer.reason is not Reason.ADMITTED:
            return str(answer.reason)
        if lane == FASTLANE:
            return ""
        if record.kind != PAGE and self._past_sitemaps(state, now):
            return SITEMAP_BUDGET
        return record.reason if record.reason and self._still_unwanted(state.host, record.reason) else ""

    def _outside(self, host: str, url: str, record: UrlRecord) -> str:
        """Why the page is outside the scope of its host, which may have been another one when it was queued."""
        return self._rules.scope(host).reason(url, record.depth) if record.kind == PAGE else ""

    def _still_unwanted(self, host: str, reason: str) -> bool:
        """Whether the page itself has refused its use, and the policy is the one under which that meant to stop."""
        return reason.startswith(BY_PAGE) and reason == dropped_by_page(self._rules.of(host).citizenship)

    def _below_surface(self, state: HostState, record: UrlRecord) -> bool:
        """Whether the host is in surface mode and this page lies too deep."""
        return state.record.surface and record.depth > self._rules.of(state.host).frontier.surface_depth

    def _past_sitemaps(self, state: HostState, now: float) -> bool:
        """Whether the host's sitemaps and feeds have used up what may be read of them in a day."""
        return over_budget(state.record, now, self._rules.of(state.host).sitemaps)
