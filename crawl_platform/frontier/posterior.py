"""A page's posterior as the frontier keeps it: increments over the prior of a page of which nothing is known."""

from crawl_platform.frontier.records import UrlRecord
from crawl_platform.scheduling.change_rate import Gamma, observe

DAY = 86_400.0


def prior_of(shape: float, rate: float) -> Gamma:
    """Gamma prior of a page of which nothing is known; `rate` in changes per day."""
    return Gamma(shape, shape / rate)


def posterior_after(
    record: UrlRecord, changed: bool | None, at: float, shape: float, rate: float
) -> tuple[float, float]:
    """Posterior increments of a page after a check at `at` (UTC seconds); unchanged on the first success."""
    if changed is None or record.last_success_at == 0.0:
        return record.rate_a, record.rate_b
    elapsed = max(at - record.last_success_at, 0.0) / DAY
    return observe(prior_of(shape, rate), record.rate_a, record.rate_b, elapsed, changed)
