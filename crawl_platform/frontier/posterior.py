"""A page's posterior as the frontier keeps it: increments over the prior of its group."""

from crawl_platform.clock import DAY
from crawl_platform.frontier.records import UrlRecord
from crawl_platform.scheduling.change_rate import HALF_LIFE, Gamma, observe, posterior
from crawl_platform.scheduling.refresh import change_chance


def prior_of(shape: float, rate: float) -> Gamma:
    """Gamma prior of a page of which nothing is known; `rate` in changes per day."""
    return Gamma(shape, shape / rate)


def posterior_after(record: UrlRecord, changed: bool | None, at: float, prior: Gamma) -> tuple[float, float]:
    """Posterior increments of a page after a check at `at` (UTC seconds); unchanged on the first success."""
    if changed is None or record.last_success_at == 0.0:
        return record.rate_a, record.rate_b
    if record.pulled:
        return _seen_exactly(record, changed, _days(record, at))
    return observe(prior, record.rate_a, record.rate_b, _days(record, at), changed)


def _seen_exactly(record: UrlRecord, changed: bool, days: float) -> tuple[float, float]:
    """The visit was made because of a change that had been told of, not at a time of its own: so it shows one
    change in `days`, or none, and not "at least one" (which, always seen soon after, would raise the rate for ever)."""
    kept = 2.0 ** (-days / HALF_LIFE)
    return record.rate_a * kept + changed, record.rate_b * kept + days


def predicted_change(record: UrlRecord, at: float, prior: Gamma) -> float | None:
    """Probability that a fetch at `at` finds a change, as believed before it; None before the first success."""
    if record.last_success_at == 0.0:
        return None
    belief = posterior(prior, record.rate_a, record.rate_b)
    return max(change_chance(belief.a, belief.b, _days(record, at)), record.claimed)


def _days(record: UrlRecord, at: float) -> float:
    return max(at - record.last_success_at, 0.0) / DAY
