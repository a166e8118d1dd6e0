"""What Dagster makes of the demo's crawl, beside the truth that only a synthetic web can tell.

Each part is told once, when it is there; the last figures come at the end.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import duckdb

from crawl_platform.cli.crawl import Crawl
from crawl_platform.cli.demo_truth import duplicates, freshness, group_rates, mean_error
from crawl_platform.cli.output import count_text
from crawl_platform.clock import SystemClock, as_datetime
from crawl_platform.lake.marts import MARTS_NAME
from crawl_platform.quality.measure import LOOK_BACK, RECENT
from crawl_platform.quality.timeliness import FRESHLANE
from crawl_platform.simulation.web import SyntheticWeb

RATE_ERROR = 0.35
FRESHNESS_POINTS = 3.0
"""What is promised of the demo: mean relative error of group rates, percentage points of freshness."""
FRESHLANE_PROMISE = 10.0
"""Seconds from the visit of a watched page to a new link's page in the lake (95th percentile)."""
LEARNT = {"freshlane"}
"""Parts that need as many visits as there is something to learn from: told once they are there."""
SHOWN_GROUPS = 6

WINDOW_USE = """
SELECT window_id, count(DISTINCT host) AS hosts, count(*) AS groups, sum(allotted)::BIGINT AS promised,
    sum(reserved)::BIGINT AS reserved, sum(realised)::BIGINT AS realised
FROM window_use WHERE ends_at < $now GROUP BY window_id HAVING sum(realised) > 0 ORDER BY window_id DESC LIMIT 1
"""
QUALITY = """
SELECT measure, dimension, value, unit FROM crawl_quality
WHERE measured_at = (SELECT max(measured_at) FROM crawl_quality) AND value IS NOT NULL ORDER BY dimension, measure
"""
DIMENSIONS = 6
WATCHED = (
    "SELECT url, rate / 24 AS per_hour FROM watched_pages WHERE told IS NOT NULL ORDER BY rate DESC, url"
)
MARTS = "SELECT count(*) AS rows, count(DISTINCT host) AS hosts, sum(pages)::BIGINT AS pages FROM host_daily"


@dataclass
class Analysis:
    crawl: Crawl
    web: SyntheticWeb
    seen: set[str] = field(default_factory=set)
    broken: dict[str, str] = field(default_factory=dict)
    """Promises that what was last told of a part breaks, by part."""

    @property
    def _parts(self) -> dict[str, Callable[[], str | None]]:
        return {
            "change rates": self._rates,
            "window use": self._window,
            "quality": self._quality,
            "marts": self._marts,
            "near-duplicates": self._duplicates,
            "freshlane": self._freshlane,
        }

    @property
    def complete(self) -> bool:
        """Whether every part was seen but those that take their time, and the summary found no promise broken."""
        return self.seen >= self._parts.keys() - LEARNT and not self.broken

    def look(self) -> Iterator[str]:
        """What has newly come to be seen."""
        for name, part in self._parts.items():
            if name not in self.seen and (told := part()) is not None:
                self.seen.add(name)
                yield told

    def missing(self) -> Iterator[str]:
        """What was not seen."""
        yield from (f"NOT seen: {name}" for name in self._parts if name not in self.seen)

    def summary(self) -> Iterator[str]:
        """The last word of every part, what was not seen, and which promise is broken."""
        for name, part in self._parts.items():
            yield part() or f"NOT seen: {name}"
        for broken in self.broken.values():
            yield f"BROKEN: {broken}"

    def _judge(self, part: str, kept: bool, otherwise: str) -> None:
        """A promise is held to what is told, not to a measurement of its own a moment later."""
        self.broken.pop(part, None)
        if not kept:
            self.broken[part] = otherwise

    def _rows(self, sql: str, **parameters: Any) -> list[dict[str, Any]]:
        with self.crawl.lake.connect() as connection:
            rows: list[dict[str, Any]] = connection.execute(sql, parameters).to_arrow_table().to_pylist()
        return rows

    def _rates(self) -> str | None:
        rates = group_rates(self.web, self.crawl.lake, SystemClock().now())
        error = mean_error(rates)
        if error is None:
            return None
        self._judge(
            "change rates",
            error <= RATE_ERROR,
            f"group change rates are off by {error:.0%} on average, promised {RATE_ERROR:.0%}",
        )
        lines = [f"change rates of {len(rates)} URL groups, per hour, beside the web's true ones:"]
        lines += [
            f"         {rate.host + rate.template:<44.44} {rate.estimated / 24:7.1f}  true {rate.true / 24:7.1f}"
            f"  ({rate.checks} checks; naive {rate.naive / 24:.1f})"
            for rate in rates[:SHOWN_GROUPS]
        ]
        return "\n".join([*lines, f"         mean relative error {error:.0%} over all {len(rates)}"])

    def _window(self) -> str | None:
        rows = self._rows(WINDOW_USE, now=as_datetime(SystemClock().now()))
        if not rows:
            return None
        row = rows[0]
        return (
            f"schedule window {row['window_id']} has ended: {row['promised']} fetches promised to {row['groups']} "
            f"groups of {row['hosts']} hosts ({row['reserved']} reserved for deadlines), {row['realised']} made"
        )

    def _quality(self) -> str | None:
        rows = self._rows(QUALITY)
        if len({row["dimension"] for row in rows}) < DIMENSIONS:
            return None
        lines = ["crawl quality:"]
        lines += [
            f"         {row['dimension']:<13} {row['measure']:<34} {row['value']:12.4g} {row['unit']}"
            for row in rows
        ]
        fresh = freshness(self.web, self.crawl.lake)
        if fresh is not None:
            self._judge(
                "quality",
                fresh.points <= FRESHNESS_POINTS,
                f"measured freshness is off by {fresh.points:.1f} points, promised {FRESHNESS_POINTS:.0f}",
            )
            lines.append(f"         freshness measured {fresh.measured:.1%}, in truth {fresh.true:.1%}")
        return "\n".join(lines)

    def _marts(self) -> str | None:
        path = self.crawl.home / MARTS_NAME
        if not path.exists():
            return None
        with duckdb.connect(str(path), read_only=True) as connection:
            row = connection.execute(MARTS).fetchone()
        if row is None or not row[0]:
            return None
        return f"dbt marts, read by plain DuckDB: host_daily has {row[0]} rows of {row[1]} hosts, {row[2]:,} pages"

    def _duplicates(self) -> str | None:
        found = duplicates(self.web, self.crawl.lake)
        wrong = found.wrong
        self._judge(
            "near-duplicates",
            not wrong,
            f"{len(wrong)} pairs of pages are no duplicates, for example {' and '.join(wrong[0]) if wrong else ''}",
        )
        if not found.right:
            return None
        return (
            f"{found.clusters} clusters of near-duplicates, {found.pairs} pairs of which {len(found.wrong)} are none "
            f"in truth; for example {found.right[0][0]} and {found.right[0][1]}"
        )

    def _freshlane(self) -> str | None:
        watched = self._rows(WATCHED)
        now = as_datetime(SystemClock().now())
        with self.crawl.lake.connect() as connection:
            connection.execute(RECENT, {"since": now - LOOK_BACK, "now": now})
            row = connection.execute(FRESHLANE, {"since": now - LOOK_BACK}).fetchone()
        if not watched or row is None or not row[2]:
            return None
        seconds, _, pages = row
        took = f"95 % of them in the lake within {seconds:.1f} s of the visit that showed them"
        self._judge(
            "freshlane",
            seconds <= FRESHLANE_PROMISE,
            f"new pages of the freshlane: {took}, promised {FRESHLANE_PROMISE:.0f} s",
        )
        return (
            f"freshlane: {count_text(len(watched), 'page')} watched for new links, most on {watched[0]['url']} "
            f"({watched[0]['per_hour']:.0f} an hour)\n"
            f"         {count_text(pages, 'new page')} found through it, {took} (promised {FRESHLANE_PROMISE:.0f})"
        )
