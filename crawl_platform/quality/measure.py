"""What a measure is, and how declared ones are computed from the lake's views.

Nothing here knows how the lake is stored: `connection` is any DuckDB connection with views of the lake's table
names, all at one version vector. The time is that of the last commit, so the same versions give the same values.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime, timedelta
from ipaddress import IPv4Network, IPv6Network
from typing import Any, Literal

import duckdb

from crawl_platform.networks import Networks

Dimension = Literal["usefulness", "completeness", "freshness", "timeliness", "cost", "politeness"]

LOOK_BACK = timedelta(days=1)
"""Measures of what happened (not of what is) look back over a day: a whole one, since the web sleeps at night."""

SUCCESSES = "('ok', 'not_modified')"
RETRIED = (
    "('rate_limited', 'unavailable', 'server_error', 'no_such_host', 'dns_failure', 'dns_timeout', "
    "'connect_refused', 'connect_timeout', 'tls_failure', 'tls_timeout', 'first_byte_timeout', 'read_timeout', "
    "'too_slow', 'connection_lost', 'connection_stale', 'bad_http', 'headers_too_large', 'response_flood', "
    "'bad_encoding', 'internal_error')"
)
"""Outcomes that say nothing of the page itself: it is tried again."""
UNSENT = (
    "('bad_url', 'no_such_host', 'dns_failure', 'dns_timeout', 'unsafe_address', 'connect_refused', "
    "'connect_timeout', 'tls_failure', 'tls_timeout')"
)
"""Outcomes of fetches that never became a request."""

RECENT = """
CREATE OR REPLACE TEMP TABLE recent AS
SELECT fetch_id, url, host, kind, lane, started_at, duration_ms, outcome, wire_bytes, address, changed,
    previous_success_at, discovered_at, depth, predicted_change, request_id, charged, incarnation, series, manifest
FROM fetches WHERE date >= CAST($since AS DATE) AND started_at > $since AND started_at <= $now
"""
COPIES = f"""
CREATE OR REPLACE TEMP TABLE copies AS
WITH known AS (
    SELECT url, host,
        max(started_at) FILTER (outcome IN {SUCCESSES}) AS last_success,
        arg_max(group_id, started_at) FILTER (outcome IN {SUCCESSES}) AS group_id,
        arg_max(rate_a, started_at) FILTER (outcome IN {SUCCESSES}) AS rate_a,
        arg_max(rate_b, started_at) FILTER (outcome IN {SUCCESSES}) AS rate_b,
        arg_max(value, started_at) FILTER (outcome IN {SUCCESSES}) AS value,
        arg_max(outcome IN {SUCCESSES}, started_at) FILTER (outcome NOT IN {RETRIED}) AS there
    FROM fetches WHERE kind = 'page' AND started_at <= $now GROUP BY url, host
)
SELECT url, host, last_success, coalesce(group_id, 0) AS group_id, coalesce(rate_a, 0)::DOUBLE AS rate_a,
    coalesce(rate_b, 0)::DOUBLE AS rate_b, coalesce(value, 0)::DOUBLE AS value
FROM known SEMI JOIN (SELECT host FROM hosts_now WHERE state = 'seed') USING (host)
WHERE there AND last_success IS NOT NULL
"""
"""The copies that the crawl holds: pages of seed hosts that were fetched well, and were still there when last
asked for. A page that answered 404 since, or redirects now, is no copy of anything: it left at that answer."""


@dataclass(frozen=True)
class Look:
    """When to measure, and the promises to measure against.

    `delay`, `address_delay`, `robots_ttl` and `interval_max` are in seconds, as is what is promised of revisits and of
    first visits of single hosts; `prior_a`, `prior_b` (days) is the Gamma prior of a page of which nothing is known.
    `front_ends`: networks of addresses behind which many machines stand, so that several requests at a time are no
    rudeness.
    """

    now: datetime
    delay: float
    address_delay: float
    robots_ttl: float
    interval_max: float
    prior_a: float
    prior_b: float
    promised: Mapping[str, float] = field(default_factory=dict)
    promised_first: Mapping[str, float] = field(default_factory=dict)
    back: timedelta = LOOK_BACK
    front_ends: tuple[IPv4Network | IPv6Network, ...] = ()

    def parameters(self) -> dict[str, Any]:
        """Named parameters of the measures' statements; `since` is where the look back begins."""
        values = asdict(self)
        return {
            **values,
            "since": self.now - values.pop("back"),
            "promised": as_map(self.promised),
            "promised_first": as_map(self.promised_first),
        }


def as_map(values: Mapping[str, float]) -> dict[str, list[Any]]:
    """As DuckDB takes a MAP for a parameter; one without entries would have no types."""
    return {"key": [*values, ""], "value": [*values.values(), None]}


@dataclass(frozen=True)
class Value:
    """What came out: `value` is None where there is nothing to measure yet."""

    value: float | None
    numerator: float | None
    denominator: float | None


@dataclass(frozen=True)
class Measure:
    """A declared measure.

    `sql` gives one row (numerator, denominator) or (value, numerator, denominator); without, it is computed in
    `quality.freshness`. `per` multiplies the ratio. `missing` says what it means if there is no value.
    `state`: it describes what is, not what happened during the look back.
    """

    name: str
    dimension: Dimension
    unit: str
    definition: str
    missing: str
    sql: str = ""
    per: float = 1.0
    state: bool = False


def run(connection: duckdb.DuckDBPyConnection, sql: str, look: Look) -> duckdb.DuckDBPyConnection:
    """Execute a statement with those of the look's parameters that it names."""
    names = set(re.findall(r"\$(\w+)", sql))
    values = {k: v for k, v in look.parameters().items() if k in names}
    if "front_addresses" in names:
        values["front_addresses"] = _front_addresses(connection, look)
    return connection.execute(sql, values or None)


def _front_addresses(connection: duckdb.DuckDBPyConnection, look: Look) -> list[str]:
    """Those of the addresses that were asked lately that lie in a front end's network."""
    networks = Networks(look.front_ends)
    if not networks:
        return []
    rows = connection.execute("SELECT DISTINCT address FROM recent WHERE address IS NOT NULL").fetchall()
    return [address for (address,) in rows if address in networks]


def prepare(connection: duckdb.DuckDBPyConnection, statements: Iterable[str], look: Look) -> None:
    """Create the temporary tables that measures share."""
    for statement in statements:
        run(connection, statement, look)


def computed(connection: duckdb.DuckDBPyConnection, measure: Measure, look: Look) -> Value:
    """The value of a measure that is declared by its statement."""
    cursor = run(connection, measure.sql, look)
    names = [column[0] for column in cursor.description or []]
    row = dict(zip(names, cursor.fetchone() or (), strict=True))
    numerator, denominator = _number(row["numerator"]), _number(row["denominator"])
    if "value" in row:
        return Value(_number(row["value"]), numerator, denominator)
    if numerator is None or not denominator:
        return Value(None, numerator, denominator)
    return Value(measure.per * numerator / denominator, numerator, denominator)


def _number(value: Any) -> float | None:
    return None if value is None else float(value)
