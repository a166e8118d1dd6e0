"""What the crawl believes beside what is true: only a synthetic web knows, so only the demo can say.

Nothing here feeds back into the crawl. Rates are changes per day, as in the lake; the web's own are per second.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import fmean

import numpy as np

from crawl_platform.clock import DAY, as_datetime
from crawl_platform.lake.lake import Lake
from crawl_platform.quality.measure import COPIES
from crawl_platform.simulation.web import SyntheticWeb

ENOUGH = 20
"""Changed and unchanged checks from which on a group's rate is held to the truth."""

GROUPS = f"""
SELECT host, group_id, template, rate, cho_rate, naive_rate, checks, changed, unchanged
FROM change_rates WHERE changed >= {ENOUGH} AND unchanged >= {ENOUGH} ORDER BY changed DESC, host, template
"""
CHECKED_PAGES = """
SELECT host, arg_max(group_id, started_at) AS group_id, url FROM fetches
WHERE kind = 'page' AND changed IS NOT NULL GROUP BY host, url ORDER BY url
"""
MEASURED = """
SELECT epoch(measured_at) AS at, value, input_versions FROM crawl_quality WHERE measure = 'freshness'
    AND value IS NOT NULL ORDER BY measured_at DESC LIMIT 1
"""
CLUSTERS = """
SELECT cluster_id, list(n.url ORDER BY n.url) AS urls, max(p.fetched_at) AS read_at
FROM near_duplicates n JOIN pages p USING (fetch_id) GROUP BY 1 ORDER BY 1
"""


@dataclass(frozen=True)
class GroupRate:
    """One group's rate as estimated and as it is, changes per day."""

    host: str
    template: str
    estimated: float
    cho: float
    naive: float
    true: float
    checks: int

    @property
    def error(self) -> float:
        """Relative error of the estimate."""
        return abs(self.estimated - self.true) / self.true


@dataclass(frozen=True)
class Freshness:
    """Share of the fetched pages whose copy equals the live page: as measured and as it is, in [0, 1]."""

    measured: float
    true: float

    @property
    def points(self) -> float:
        """Difference in percentage points."""
        return 100 * abs(self.measured - self.true)


@dataclass(frozen=True)
class Clusters:
    """How our clusters of near-duplicates compare with the true ones, in pairs of pages."""

    clusters: int
    right: tuple[tuple[str, ...], ...]
    wrong: tuple[tuple[str, str], ...]
    pairs: int

    @property
    def precision(self) -> float:
        return 1.0 - len(self.wrong) / self.pairs if self.pairs else 1.0


def group_rates(web: SyntheticWeb, lake: Lake, now: float) -> list[GroupRate]:
    """Every group with enough checks, beside the mean true rate of its pages; groups that never change are left
    out, since they have no relative error."""
    pages: dict[tuple[str, int], list[str]] = {}
    for row in lake.query(CHECKED_PAGES).to_pylist():
        pages.setdefault((row["host"], row["group_id"]), []).append(row["url"])
    found = []
    for row in lake.query(GROUPS).to_pylist():
        true = _true_rate(web, pages.get((row["host"], row["group_id"]), []), now)
        if true:
            found.append(
                GroupRate(
                    row["host"],
                    row["template"],
                    row["rate"],
                    row["cho_rate"],
                    row["naive_rate"],
                    true,
                    row["checks"],
                )
            )
    return found


def _true_rate(web: SyntheticWeb, urls: Iterable[str], now: float) -> float:
    """Mean over the pages that exist, changes per day."""
    rates = [web.rate(url, now) * DAY for url in urls if web.page(url, now) is not None]
    return fmean(rates) if rates else 0.0


def mean_error(rates: Sequence[GroupRate]) -> float | None:
    """Mean relative error over groups; None if none is known well enough."""
    return fmean(rate.error for rate in rates) if rates else None


def freshness(web: SyntheticWeb, lake: Lake) -> Freshness | None:
    """The last measurement beside the truth about the same copies at the same moment."""
    rows = lake.query(MEASURED).to_pylist()
    if not rows:
        return None
    at, inputs = rows[0]["at"], dict(rows[0]["input_versions"])
    with lake.connect(versions=inputs) as connection:
        connection.execute(COPIES, {"now": as_datetime(at)})
        copies = connection.execute("SELECT url, last_success FROM copies").fetchall()
    equal = [_is_fresh(web, url, fetched_at.timestamp(), at) for url, fetched_at in copies]
    return Freshness(rows[0]["value"], float(np.mean(equal))) if equal else None


def _is_fresh(web: SyntheticWeb, url: str, fetched_at: float, now: float) -> bool:
    page = web.page(url, now)
    return page is not None and page.version == web.version(url, fetched_at)


def duplicates(web: SyntheticWeb, lake: Lake) -> Clusters:
    """Our clusters, each pair of pages held against the true clusters."""
    home = {_place(web, url): number for number, urls in enumerate(web.duplicates()) for url in urls}
    right, wrong, pairs = [], [], 0
    rows = lake.query(CLUSTERS).to_pylist()
    for row in rows:
        says = {url: _original(web, url, row["read_at"].timestamp()) for url in row["urls"]}
        false = [(a, b) for a, b in combinations(row["urls"], 2) if not _together(home, says[a], says[b])]
        pairs += len(row["urls"]) * (len(row["urls"]) - 1) // 2
        wrong += false
        if not false:
            right.append(tuple(row["urls"]))
    return Clusters(len(rows), tuple(right), tuple(wrong), pairs)


def _together(home: dict[tuple[str, str], int], first: tuple[str, str], second: tuple[str, str]) -> bool:
    return first == second or (first in home and home[first] == home.get(second))


def _original(web: SyntheticWeb, url: str, at: float) -> tuple[str, str]:
    """Place of the page whose text `url` shows: what it names as canonical (printed pages, facets of a listing)."""
    page = web.page(url, at)
    return _place(web, page.canonical if page and page.canonical else url)


def _place(web: SyntheticWeb, url: str) -> tuple[str, str]:
    site, path = web.locate(url)
    return (site.host.name if site else "", path)
