"""What a try to get a robots.txt does to what is known of its origin (RFC 9309 §2.3.1.4, §2.4). Pure.

    answer                      in force                                  looked at again after
    rules, or 4xx               it                                        robots_ttl
    429                         a copy not yet too old, else it           robots_retry
    none, or 5xx                a copy not yet too old, else disallow_all robots_retry, or an eighth of the outage
      for > robots_patience     given_up                                  robots_given_up_retry

A copy is what was last read. It may be used for a day, and for `robots_stale` longer while nothing newer can be had.
"""

from crawl_platform.admission.robots import GIVEN_UP
from crawl_platform.frontier.records import RobotsRecord
from crawl_platform.settings import Politeness

LONGEST_RETRY = 6 * 3_600.0
"""Most seconds between two tries in an outage; well below the day after which pages must not be fetched without one."""


def after_answer(
    before: RobotsRecord | None, rule: str, body: bytes, now: float, settings: Politeness, *, limited: bool
) -> RobotsRecord:
    """`rule` and `body`: what was answered, `disallow_all` if nothing was. `limited`: the answer was 429, which says
    something about our pace and nothing about the file. Times are UTC seconds."""
    copy = before if before is not None and _usable(before, now, settings) else None
    if rule != "disallow_all":
        if not limited:
            return RobotsRecord(rule, now, now + settings.robots_ttl, body)
        kept = copy or RobotsRecord(rule, now, 0.0, body)
        return RobotsRecord(kept.rule, kept.fetched_at, now + settings.robots_retry, kept.body)
    since = (before.unreachable_since if before is not None else 0.0) or now
    failures = 1 + (before.failures if before is not None else 0)
    outage = now - since
    if outage >= settings.robots_patience:
        return RobotsRecord(GIVEN_UP, now, now + settings.robots_given_up_retry, b"", since, failures)
    retry = now + min(max(settings.robots_retry, outage / 8), max(LONGEST_RETRY, settings.robots_retry))
    if copy is not None:
        return RobotsRecord(copy.rule, copy.fetched_at, retry, copy.body, since, failures)
    return RobotsRecord("disallow_all", now, retry, b"", since, failures)


def _usable(known: RobotsRecord, now: float, settings: Politeness) -> bool:
    age = now - known.fetched_at
    return known.rule in ("rules", "allow_all") and age <= settings.robots_ttl + settings.robots_stale
