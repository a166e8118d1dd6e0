"""What the lake says about the work of one window: eligible pages, deadlines, rewards and costs by URL group.

Everything is summed up in the database: arrays have one value per group, never per page. Planning is in
`assets/schedule_plan.py`.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from assets.group_work import BELIEF, PRIOR, WAIT, believed
from assets.schedule_catalogue import bring_up_to_date, run
from crawl_platform.admission.rules import HostRules
from crawl_platform.clock import DAY, as_datetime
from crawl_platform.fleet.messages import ScheduleWindow
from crawl_platform.quality.measure import as_map
from crawl_platform.scheduling.bandit import FADE
from crawl_platform.scheduling.refresh import bayes_index
from crawl_platform.settings import Settings
from resources.lake import Reading

INPUTS = (
    *("hosts", "fetches", "links", "fleet_stats", "frontier", "host_ranks", "url_groups", "change_rates"),
    *("cold_priors", "group_work", "near_duplicates", "page_values"),
)
HEADROOM = 0.9
"""Share of the measured capacity that is planned: the rest is for the fast lanes and for surprises."""
REMEMBERED = 300
"""Windows after which what a group brought counts a twentieth (0.99^300) and is not read any more."""
PER_OCTAVE = 2
"""Steps in which the worth of visits is told per factor of two."""
EQUAL_SHARE = 0.5
"""A host's value is half its share of trust and half an equal share, so that no seed host starves."""


def _before(moment: str) -> str:
    """SQL: the part of a bucket whose moment is before `moment`, were they spread evenly."""
    spread = "(since_last - since_first)"
    part = f"greatest(least(({moment} - since_first) / {spread}, 1), 0)"
    return f"CASE WHEN since_last > since_first THEN {part} ELSE (since_first < {moment})::INTEGER END"


def _mean_before(moment: str) -> str:
    """SQL: the mean of these moments."""
    return f"(since_first + greatest(least(since_last, {moment}), since_first)) / 2"


VISIT = f"""
{PRIOR}, belief AS (
    SELECT p.*, {BELIEF}, coalesce($promised[p.host], $longest) AS promise
    FROM bucket p LEFT JOIN prior q ON q.host = p.host AND q.group_id = p.group_id WHERE p.state = 'known'
), visit AS (
    SELECT *, least({WAIT}, promise) AS wait, pages * {_before("$ends - wait")} AS due,
        {_mean_before("$ends - wait")} AS seen,
        due * floor(($ends - greatest(seen + wait, $starts)) / wait) AS again,
        pages * {_before("$ends - promise")} AS overdue,
        $ends - promise - {_mean_before("$ends - promise")} AS late
    FROM belief
)
"""
"""Buckets of known pages. `wait`: seconds after which a visit is worth its cost; `due`: pages that are by the window's
end, last seen at `seen`, and `again`: further visits of those; `overdue`: by what was promised, and `late`: by how many
seconds at the window's end."""

WORK = f"""
WITH {VISIT}, refresh AS (
    SELECT host, group_id, sum(due) AS pages, sum(due + again) AS visits, sum(overdue) AS overdue,
        sum(overdue * late) / nullif(sum(overdue), 0) AS late
    FROM visit GROUP BY host, group_id
), waiting AS (
    SELECT host, group_id, sum(pages) AS urls, sum(pages * value) / nullif(sum(pages), 0) AS value,
        sum(pages * owed) AS unvisited, sum(pages * owed * late) / nullif(sum(pages * owed), 0) AS late
    FROM (
        SELECT *, $promised_first[host] AS promise,
            CASE WHEN promise IS NULL THEN 0 ELSE {_before("$ends - promise")} END AS owed,
            $ends - promise - {_mean_before("$ends - promise")} AS late
        FROM bucket WHERE state = 'waiting'
    ) GROUP BY host, group_id
)
SELECT coalesce(r.host, w.host) AS host, coalesce(r.group_id, w.group_id)::BIGINT AS group_id,
    coalesce(w.urls, 0) AS queued, coalesce(r.pages, 0) AS pages, coalesce(r.visits, 0) AS visits,
    coalesce(r.overdue, 0) + coalesce(w.unvisited, 0) AS overdue, coalesce(w.unvisited, 0) AS unvisited,
    greatest(coalesce(r.late, 0), coalesce(w.late, 0)) AS late, w.value
FROM refresh r FULL JOIN waiting w ON w.host = r.host AND w.group_id = r.group_id
"""

LEVELS = f"""
WITH {VISIT}, planned AS (
    SELECT host, group_id, a, b, value, ($ends - seen) / 86400 AS age, due AS visits FROM visit
    UNION ALL
    SELECT host, group_id, a, b, value, wait / 86400, again FROM visit
), valued AS (
    SELECT host, group_id, visits, value * (CASE WHEN abs(a - 1) < 1e-9 THEN b * ln(1 + age / b)
        ELSE b / (a - 1) * (1 - pow(1 + age / b, 1 - a)) END - age * pow(1 + age / b, -a)) AS worth
    FROM planned WHERE visits > 0
)
SELECT host, group_id, pow(2, floor({PER_OCTAVE} * log2(greatest(worth, 1e-12))) / {PER_OCTAVE}) AS worth,
    round(sum(visits))::BIGINT AS visits
FROM valued GROUP BY ALL HAVING sum(visits) >= 0.5 ORDER BY host, group_id, worth DESC
"""
"""Visits that a window has room for, by what they are worth at its end: the index of `scheduling.refresh`, in steps.
A page that may be visited again and again is worth what it is at its shortest interval."""

HISTORY = f"""
WITH page AS (
    SELECT host, url, coalesce(arg_max(group_id, started_at), 0) AS group_id FROM fetches
    WHERE kind = 'page' AND started_at >= $since GROUP BY host, url
), shown AS (
    SELECT dst_url, arg_min(fetch_id, seen_at) AS fetch_id FROM links
    WHERE seen_at >= $since AND NOT coalesce(nofollow, false) GROUP BY dst_url
), found AS (SELECT fetch_id, count(*) AS links FROM shown GROUP BY fetch_id), brought AS (
    SELECT f.host, f.url, f.started_at, f.duration_ms, f.wire_bytes,
        CASE WHEN d.url IS NULL AND (f.changed OR (f.previous_success_at IS NULL AND f.outcome = 'ok'))
            THEN 1 ELSE 0 END + log2(1 + coalesce(n.links, 0)) AS news
    FROM fetches f LEFT JOIN found n ON n.fetch_id = f.fetch_id
    LEFT JOIN (SELECT DISTINCT url FROM near_duplicates WHERE NOT is_representative) d ON d.url = f.url
    WHERE f.kind = 'page' AND f.lane <> 'fastlane' AND f.started_at >= $since
), scale AS (SELECT greatest(quantile_cont(news, 0.95), 1) AS most FROM brought)
SELECT b.host, p.group_id::BIGINT AS group_id,
    sum(pow({FADE}, floor(($starts - epoch(b.started_at)) / $seconds)) * least(news / most, 1)) AS reward,
    sum(pow({FADE}, floor(($starts - epoch(b.started_at)) / $seconds))) AS fetches,
    count(b.duration_ms)::BIGINT AS measured,
    coalesce(sum(b.duration_ms), 0)::DOUBLE AS duration, coalesce(sum(b.wire_bytes), 0)::DOUBLE AS size
FROM brought b CROSS JOIN scale JOIN page p ON p.host = b.host AND p.url = b.url
GROUP BY b.host, p.group_id
"""
"""What groups brought and cost in the windows that are remembered. News of a fetch: 1 for new or changed content that
no other page has, and log2 of the links that nobody had shown before in that time, so that sixty of them are not worth
sixty changes; clipped at the 95th percentile of all fetches."""

GROUPS = f"""
WITH {PRIOR}, named AS (
    SELECT host, group_id, arg_max(template, moment) AS template FROM (
        SELECT host, group_id, template, epoch(last_seen) AS moment FROM url_groups
        UNION ALL SELECT host, group_id, template, since FROM fresh WHERE template IS NOT NULL
    ) GROUP BY host, group_id
)
SELECT h.host, g.group_id, t.template, g.queued, g.pages, g.visits, g.overdue, g.unvisited, g.late,
    coalesce(g.value, $value) AS value,
    coalesce(q.prior_a, $prior_a) AS prior_a, coalesce(q.prior_b, $prior_b) AS prior_b,
    coalesce(b.reward, 0) AS reward, coalesce(b.fetches, 0) AS fetches,
    coalesce(b.measured, 0) AS measured, coalesce(b.duration, 0) AS duration, coalesce(b.size, 0) AS size
FROM hosts_now h JOIN (
    SELECT host, group_id, sum(queued)::DOUBLE AS queued, sum(pages)::DOUBLE AS pages, sum(visits)::DOUBLE AS visits,
        round(sum(overdue))::BIGINT AS overdue, round(sum(unvisited))::BIGINT AS unvisited, max(late) AS late,
        max(value) AS value
    FROM (FROM ({WORK}) UNION ALL SELECT host, 0, 0, 0, 0, 0, 0, 0, NULL FROM hosts_now) GROUP BY host, group_id
) g ON g.host = h.host
LEFT JOIN named t ON t.host = g.host AND t.group_id = g.group_id
LEFT JOIN ({HISTORY}) b ON b.host = g.host AND b.group_id = g.group_id
LEFT JOIN prior q ON q.host = g.host AND q.group_id = g.group_id
WHERE h.state = 'seed' ORDER BY h.host, g.group_id
"""
"""Group 0 of every host is there in any case: its pages that have no group yet, and those yet to be found."""

HOSTS = """
WITH speed AS (
    SELECT host, avg(duration_ms) / 1000 AS seconds FROM fetches
    WHERE duration_ms IS NOT NULL AND started_at > $now - INTERVAL 1 DAY GROUP BY host
), tried AS (
    SELECT host, sum(urls) AS urls FROM (
        SELECT host, pages AS urls FROM bucket WHERE state <> 'waiting' UNION ALL SELECT host, 0 FROM fresh
    ) GROUP BY host
)
SELECT h.host, coalesce(h.delay, $delay) + coalesce(s.seconds, 0) AS seconds_per_fetch,
    greatest(coalesce(h.known_urls, 0) - coalesce(t.urls, 0), 0)::DOUBLE AS unseen,
    t.urls IS NULL AS untouched, coalesce(r.trust, 0) AS trust
FROM hosts_now h LEFT JOIN speed s ON s.host = h.host LEFT JOIN tried t ON t.host = h.host
LEFT JOIN host_ranks r ON r.host = h.host
WHERE h.state = 'seed' ORDER BY h.host
"""

CELLS = """
SELECT cell, arg_max(slots, reported_at) AS slots,
    sum(cpu_seconds) / nullif(sum(fetches), 0) AS cpu_per_fetch,
    avg(latency_p50_ms) / 1000 AS latency
FROM fleet_stats WHERE reported_at > $now - INTERVAL 1 HOUR GROUP BY cell ORDER BY cell
"""

NUMBERS = ("late", "reward", "fetches", "measured", "duration", "size")
"""Columns of `GROUPS` that are taken as they are."""

SEED = "SELECT host FROM hosts_now WHERE state = 'seed' ORDER BY host"
SO_FAR = "SELECT count(*) AS n FROM fetches WHERE kind = 'page' AND started_at >= $since"

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Work:
    """The work of a window. `hosts`, `host_most` and `host_value` by host, all else by group; `host` is the
    number of a group's host. Groups are ordered by host and number; group 0 is the host as a whole."""

    hosts: list[str]
    host_most: Ints
    host_value: Floats
    host: Ints
    group: Ints
    template: list[str | None]
    eligible: Ints
    pages: Floats
    """Different pages among the eligible: a page visited again in one window brings less."""
    overdue: Ints
    late: Floats
    """How long after their deadlines the overdue pages are at the window's end, seconds."""
    reward: Floats
    fetches: Floats
    measured: Floats
    duration: Floats
    size: Floats
    so_far: float
    budget: int
    first: Floats | None = None
    """What a first visit is worth (days of freshness), by group; where it is not known all are worth the same."""
    levels: "Levels | None" = None
    """What the other visits are worth, as far as it is known."""
    unvisited: Ints | None = None
    """Of the overdue pages, those that were never fetched; where it is not known there are none."""


class Levels(NamedTuple):
    """Visits of known pages, by their group (its place in `Work`) and what each is worth (days of freshness), the
    best of each group first."""

    group: Ints
    worth: Floats
    visits: Ints


NO_LEVELS = Levels(np.zeros(0, np.int64), np.zeros(0), np.zeros(0, np.int64))


def work_of(reading: Reading, settings: Settings, window: ScheduleWindow) -> Work:
    """What there is to do in `window`, for all seed hosts."""
    seconds = window.ends_at - window.starts_at
    now = as_datetime(window.starts_at)
    seed = [row[0] for row in reading.connection.execute(SEED).fetchall()]
    known = _parameters(settings, window, seed)
    bring_up_to_date(reading, known)
    per_host = run(reading, HOSTS, {"now": now, "delay": settings.politeness.host_delay}).fetchnumpy()
    hosts = [str(host) for host in per_host["host"]]
    groups = run(reading, GROUPS, known).fetchnumpy()
    number = {host: n for n, host in enumerate(hosts)}
    host = np.array([number[str(name)] for name in groups["host"]], np.int64)
    group = np.asarray(groups["group_id"], np.int64)
    queued = np.asarray(groups["queued"], np.float64)
    unseen = per_host["unseen"] - np.bincount(host, queued, len(hosts))
    at_least = np.asarray(per_host["untouched"], np.float64)  # a host that was never asked has its root page
    queued = np.where(group == 0, np.maximum(queued, np.maximum(unseen, at_least)[host]), queued)
    return Work(
        hosts=hosts,
        host_most=np.floor(seconds / np.asarray(per_host["seconds_per_fetch"], np.float64)).astype(np.int64),
        host_value=host_values(np.asarray(per_host["trust"], np.float64)),
        host=host,
        group=group,
        template=[_text(t) for t in groups["template"]],
        eligible=np.rint(queued + np.asarray(groups["visits"], np.float64)).astype(np.int64),
        pages=queued + np.asarray(groups["pages"], np.float64),
        overdue=np.asarray(groups["overdue"], np.int64),
        **{name: np.asarray(groups[name], np.float64) for name in NUMBERS},
        so_far=float(run(reading, SO_FAR, known).fetchone()[0]),
        first=bayes_index(
            np.asarray(groups["prior_a"], np.float64),
            np.asarray(groups["prior_b"], np.float64),
            settings.refresh.interval_max / DAY,
            np.asarray(groups["value"], np.float64),
        ),
        levels=_levels(reading, known, number, host, group),
        unvisited=np.asarray(groups["unvisited"], np.int64),
        budget=capacity(reading, settings, window.starts_at, seconds),
    )


def _levels(
    reading: Reading, known: dict[str, Any], number: dict[str, int], host: Ints, group: Ints
) -> Levels:
    found = run(reading, LEVELS, known).fetchnumpy()
    place = {pair: g for g, pair in enumerate(zip(host.tolist(), group.tolist(), strict=True))}
    places = [
        place.get((number.get(str(name), -1), int(g)), -1)
        for name, g in zip(found["host"], found["group_id"], strict=True)
    ]
    of_group = np.array(places, np.int64)
    seed = of_group >= 0
    worth, visits = np.asarray(found["worth"], np.float64), np.asarray(found["visits"], np.int64)
    return Levels(of_group[seed], worth[seed], visits[seed])


def _parameters(settings: Settings, window: ScheduleWindow, hosts: list[str]) -> dict[str, Any]:
    refresh, seconds = settings.refresh, window.ends_at - window.starts_at
    rules = HostRules(settings)
    return {
        **believed(refresh),
        "starts": window.starts_at,
        "ends": window.ends_at,
        "seconds": seconds,
        "since": as_datetime(max(window.starts_at - REMEMBERED * seconds, 0.0)),
        "promised": as_map(rules.promised(hosts)),
        "promised_first": as_map(rules.promised_first(hosts)),
    }


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def host_values(trust: Floats) -> Floats:
    """Value of each host, 1 on average."""
    n = len(trust)
    if not n or trust.sum() <= 0:
        return np.ones(n)
    value: Floats = (1 - EQUAL_SHARE) * n * trust / trust.sum() + EQUAL_SHARE
    return value


def capacity(reading: Reading, settings: Settings, now: float, seconds: float) -> int:
    """Fetches that all cells together can make in `seconds`: each is bound by its slots (slots/latency, Little's
    law) or by its core (1/CPU seconds per fetch). Before the first report the slots alone, at one second each."""
    cells = reading.connection.execute(CELLS, {"now": as_datetime(now)}).fetchall()
    if not cells:
        return int(HEADROOM * settings.fleet.cells * settings.fetch.slots * seconds)
    rate = 0.0
    for _, slots, cpu_per_fetch, latency in cells:
        by_slots = slots / max(latency or 1.0, 1e-3)
        by_core = 1.0 / cpu_per_fetch if cpu_per_fetch else by_slots
        rate += min(by_slots, by_core)
    return int(HEADROOM * rate * seconds)
