"""Cost: what a page costs, and what a meaningful change costs, in bytes, wire time and CPU."""

from crawl_platform.quality.measure import SUCCESSES, Measure

GIGABYTE = 1e9
HOUR = 3_600.0
MILLION = 1e6

PAGES = f"count(*) FILTER (kind = 'page' AND outcome IN {SUCCESSES})"
CHANGES = (
    f"count(*) FILTER (kind = 'page' AND outcome IN {SUCCESSES} AND (changed OR previous_success_at IS NULL))"
)
BYTES = "sum(coalesce(wire_bytes, 0))"
SECONDS = "sum(coalesce(duration_ms, 0)) / 1000"
CPU = """
SELECT sum(cpu_seconds) AS numerator, sum(pages) AS denominator FROM fleet_stats
WHERE date >= CAST($since AS DATE) AND reported_at > $since AND reported_at <= $now
"""
CPU_PER_CHANGE = f"""
SELECT c.numerator, c.denominator * f.changes / nullif(f.pages, 0) AS denominator
FROM ({CPU}) c, (SELECT {CHANGES} AS changes, {PAGES} AS pages FROM recent) f
"""
"""The cells report CPU by pages: of these, as many were changes as among the fetches of the same time."""

NO_PAGE = "no page was fetched in the look back"
NO_CHANGE = "nothing new was found in the look back"
NO_REPORT = "no cell has reported in the look back"


def _fetches(name: str, unit: str, what: str, cost: str, of: str, missing: str, per: float = 1.0) -> Measure:
    sql = f"SELECT {cost} AS numerator, {of} AS denominator FROM recent"
    return Measure(name, "cost", unit, what, missing, sql, per)


MEASURES = (
    _fetches(
        "bytes_per_page",
        "bytes",
        "Body bytes read from the wire, robots.txt and failures included, per page fetched well.",
        BYTES,
        PAGES,
        NO_PAGE,
    ),
    _fetches(
        "seconds_per_page",
        "seconds",
        "Time from writing a request to the end of its response, robots.txt and failures included, per page fetched "
        "well: how long a fetch slot is held.",
        SECONDS,
        PAGES,
        NO_PAGE,
    ),
    Measure(
        "cpu_per_page",
        "cost",
        "CPU seconds",
        "CPU time of the cells per page fetched well.",
        NO_REPORT,
        CPU,
    ),
    _fetches(
        "bytes_per_change",
        "bytes",
        "Body bytes read from the wire per meaningful change: a page's first success, or a change of its cleaned "
        "markup.",
        BYTES,
        CHANGES,
        NO_CHANGE,
    ),
    _fetches(
        "seconds_per_change",
        "seconds",
        "Time that fetch slots are held per meaningful change.",
        SECONDS,
        CHANGES,
        NO_CHANGE,
    ),
    Measure(
        "cpu_per_change",
        "cost",
        "CPU seconds",
        "CPU time of the cells per meaningful change.",
        NO_CHANGE,
        CPU_PER_CHANGE,
    ),
    _fetches(
        "paid_per_million_pages",
        "currency units per million pages",
        "Money that sites say they have charged (pay per crawl), for a million pages fetched well; 0 while `[payment]` "
        "sets no budget.",
        "sum(coalesce(charged, 0))",
        PAGES,
        NO_PAGE,
        MILLION,
    ),
    _fetches(
        "gigabytes_per_million_pages",
        "GB per million pages",
        "Body bytes read from the wire for a million pages fetched well.",
        BYTES,
        PAGES,
        NO_PAGE,
        MILLION / GIGABYTE,
    ),
    Measure(
        "cpu_hours_per_million_pages",
        "cost",
        "CPU hours per million pages",
        "CPU time of the cells for a million pages fetched well.",
        NO_REPORT,
        CPU,
        MILLION / HOUR,
    ),
)
