"""The neighbourhood of each promoted host, as pictures for the run that promoted it."""

from collections.abc import Mapping
from typing import NamedTuple

from assets.plots import network
from assets.promotion_decision import Promotion
from assets.promotion_figures import sheet
from crawl_platform.graph.neighbourhood import Neighbourhood, neighbourhood
from resources.lake import Reading

MOST_PICTURES = 4
"""Drawn large, with names: each takes about 25 KB of Dagster's storage, for ever."""
MOST_SMALL = 20
"""Drawn small, all on one sheet of about 30 KB."""
MOST_LINKED = 30
"""Links of one host that are looked at: those to the hosts with most trust."""
MOST_LINKING = 20
MOST_KIN = 20

AROUND = """
WITH ranked AS (
    SELECT g.src_host, g.dst_host, coalesce(r.trust, 0) AS trust FROM host_graph g
    LEFT JOIN host_ranks r ON r.host = g.dst_host
    WHERE g.editorial > 0 AND g.src_host IN (SELECT unnest($near::VARCHAR[]))
    QUALIFY row_number() OVER (PARTITION BY g.src_host ORDER BY trust DESC, g.dst_host) <= $linked
)
SELECT src_host, dst_host FROM ranked
UNION
(SELECT g.src_host, g.dst_host FROM host_graph g LEFT JOIN host_ranks r ON r.host = g.src_host
 WHERE g.editorial > 0 AND g.dst_host IN (SELECT unnest($near::VARCHAR[]))
 QUALIFY row_number() OVER (PARTITION BY g.dst_host ORDER BY coalesce(r.trust, 0) DESC, g.src_host) <= $linking)
"""
KIN = """
SELECT a.host, list(b.host ORDER BY list_contains($near, b.host) DESC, b.host)[:$kin] AS others FROM related_hosts a
JOIN related_hosts b ON b.component = a.component AND b.host <> a.host
WHERE a.host IN (SELECT unnest($near::VARCHAR[])) GROUP BY a.host
"""
STATES = """
SELECT host, CASE WHEN state = 'excluded' THEN 'excluded' WHEN state <> 'seed' THEN 'horizon'
    WHEN trusted THEN 'trusted seed' ELSE 'promoted before' END AS state
FROM host_ranks WHERE host IN (SELECT unnest($hosts::VARCHAR[]))
"""


class Surroundings(NamedTuple):
    """A host's neighbourhood, and what each host in it is (a key of `plots.STATE_COLOURS`)."""

    around: Neighbourhood
    states: Mapping[str, str]


def surroundings(reading: Reading, promoted: list[Promotion]) -> list[Surroundings]:
    """Of the first promoted hosts that somebody links to."""
    linked = [promotion for promotion in promoted if promotion.supporters]
    return [_surroundings(reading, promotion) for promotion in linked[:MOST_SMALL]]


def neighbourhood_pictures(known: list[Surroundings]) -> list[str]:
    """A sheet with all of them, and the first ones large and with names, as markdown."""
    if not known:
        return []
    small = sheet(
        "Who stands around each promoted host", [k.around for k in known], [k.states for k in known]
    )
    large = (
        network(f"{k.around.centre} and the hosts around it", k.around, k.states)
        for k in known[:MOST_PICTURES]
    )
    return [str(picture.md_str) for picture in (small, *large)]


def _surroundings(reading: Reading, promotion: Promotion) -> Surroundings:
    near = [promotion.host, *promotion.supporters]
    bounds = {"linked": MOST_LINKED, "linking": MOST_LINKING}
    links = reading.connection.execute(AROUND, {"near": near, **bounds}).fetchall()
    kin = dict(reading.connection.execute(KIN, {"near": near, "kin": MOST_KIN}).fetchall())
    around = neighbourhood(promotion.host, promotion.supporters, links, kin)
    known = dict(reading.connection.execute(STATES, {"hosts": list(around.places)}).fetchall())
    return Surroundings(around, {host: known.get(host, "horizon") for host in around.places})
