"""Group `change_rates`: the model behind cold groups, of which too little has been seen to know their rate.

It learns from the groups that are well known what the looks of a group say about its rate, and is used only if,
on hosts that it has not seen, it guesses better than the mean of all groups. Else the table is empty, and a cold
group keeps the prior that it shares with all others. A model that guesses worse there than the one in force, which is
learnt again from what was known then, does not take its place.
"""

from dataclasses import dataclass, field
from typing import Any

import dagster as dg
import numpy as np
import pyarrow as pa

from assets.automation import DAILY
from crawl_platform.errors import LakeError
from crawl_platform.lake.tables import COLD_PRIORS
from crawl_platform.lake.views import SUCCESSES
from crawl_platform.scheduling.cold_prior import (
    LEAST_GROUPS,
    LEAST_HOSTS,
    Judged,
    Known,
    Looks,
    judge,
    predict,
)
from crawl_platform.scheduling.group_prior import of_a_new_page
from resources.lake import LakeResource, version_metadata

GROUP = "change_rates"
OWNERS = ["team:crawl"]
INPUTS = ("change_rates", "url_groups", "host_ranks", "fetches", "links", "pages", "frontier")
WATCHED = 20
"""Checks from which on a group's rate is taken for known."""
COLD = 8
"""Checks below which a group's prior comes from the model."""

WORDS = 8
"""Texts of links, and types, of a group that the model is told: the most frequent ones."""
LOOKS = f"""
WITH page AS (
    SELECT host, url, arg_max(group_id, started_at) AS group_id FROM fetches
    WHERE kind = 'page' AND group_id > 0 GROUP BY host, url
), useful AS (
    SELECT host, avg((changed OR (outcome = 'ok' AND previous_success_at IS NULL))::INTEGER) AS share FROM fetches
    WHERE kind = 'page' AND outcome IN {SUCCESSES} GROUP BY host
), pointed AS (
    SELECT p.host, p.group_id, l.src_host, lower(trim(coalesce(l.anchor, ''))) AS anchor, count(*) AS n
    FROM links_now l JOIN page p ON p.url = l.dst_url GROUP BY ALL
), linkers AS (
    SELECT p.host, p.group_id, avg(h.trust) AS linked_by, avg(u.share) AS linkers_useful
    FROM (SELECT DISTINCT host, group_id, src_host FROM pointed WHERE src_host <> host) p
    LEFT JOIN host_ranks h ON h.host = p.src_host LEFT JOIN useful u ON u.host = p.src_host
    GROUP BY p.host, p.group_id
), said AS (
    SELECT host, group_id, array_to_string(list(anchor ORDER BY n DESC, anchor)[1:{WORDS}], ' ') AS anchors FROM (
        SELECT host, group_id, anchor, sum(n) AS n FROM pointed WHERE anchor <> '' GROUP BY ALL
    ) GROUP BY host, group_id
), declared AS (
    SELECT host, group_id, array_to_string(list(entity ORDER BY n DESC, entity)[1:{WORDS}], ' ') AS types FROM (
        SELECT p.host, p.group_id, entity, count(*) AS n
        FROM (SELECT url, unnest(list_distinct(entity_types)) AS entity FROM pages_now) e JOIN page p ON p.url = e.url
        GROUP BY ALL
    ) GROUP BY host, group_id
), listed AS (
    SELECT host, group_id, avg((second_group_id IS NOT NULL)::INTEGER) AS listed,
        avg((lastmod IS NOT NULL)::INTEGER) AS dated
    FROM frontier_now WHERE kind = 'page' GROUP BY host, group_id
)
SELECT r.host, r.group_id, r.template, r.checks, r.rate, r.prior_a, g.depth, g.in_links, g.main_links,
    g.known_urls, h.trust, coalesce(s.anchors, '') AS anchors, coalesce(d.types, '') AS types,
    f.listed, f.dated, l.linked_by, l.linkers_useful
FROM change_rates r JOIN url_groups g ON g.host = r.host AND g.group_id = r.group_id
LEFT JOIN host_ranks h ON h.host = r.host
LEFT JOIN said s ON s.host = r.host AND s.group_id = r.group_id
LEFT JOIN declared d ON d.host = r.host AND d.group_id = r.group_id
LEFT JOIN listed f ON f.host = r.host AND f.group_id = r.group_id
LEFT JOIN linkers l ON l.host = r.host AND l.group_id = r.group_id
ORDER BY r.host, r.group_id
"""


@dataclass(frozen=True)
class Outcome:
    """Rows of `cold_priors`, how good the model is, and why there are no rows where there are none."""

    rows: pa.Table
    judged: Judged | None = None
    reason: str = ""
    counts: dict[str, int] = field(default_factory=dict)


@dg.asset(
    deps=list(INPUTS),
    group_name=GROUP,
    owners=OWNERS,
    kinds={"delta", "python", "scikitlearn"},
    freshness_policy=DAILY,
    check_specs=[
        dg.AssetCheckSpec(
            "better_than_the_mean",
            asset="value_model",
            blocking=True,
            description="On hosts that it has not seen, the model guesses better than the mean of all groups.",
        ),
        dg.AssetCheckSpec(
            "no_worse_than_before",
            asset="value_model",
            description="On the same hosts it guesses no worse than its previous version, which stays in force else.",
        ),
    ],
)
def value_model(lake: LakeResource) -> dg.MaterializeResult:  # type: ignore[type-arg]
    """One row: the prior that a model gives to a URL group of which too little has been seen. Empty while the
    model is not better than the mean of all groups."""
    store = lake.open()
    before = previous(lake, store.inputs_of("cold_priors"))
    with lake.read(*INPUTS) as reading:
        outcome = learn(reading.table(LOOKS), before)
    if no_worse(outcome):
        store.overwrite("cold_priors", outcome.rows, reading.inputs)
    version = store.version("cold_priors")
    return dg.MaterializeResult(
        metadata={
            **version_metadata(store, "cold_priors", version, reading.inputs),
            **outcome.counts,
            **_errors(outcome.judged),
            "reason": outcome.reason or "the model is better than the mean of all groups",
        },
        data_version=dg.DataVersion(str(version)),
        check_results=[better_than_the_mean(outcome), no_worse_than_before(outcome)],
    )


def previous(lake: LakeResource, inputs: dict[str, int]) -> Known | None:
    """What the version in force learnt from; None if there is none, or upkeep has let go of what it read."""
    if not set(INPUTS) <= inputs.keys():
        return None
    try:
        with lake.read(*INPUTS, at=inputs) as reading:
            looks = reading.table(LOOKS)
    except LakeError:
        return None
    watched = looks.filter(pa.array(looks["checks"].to_numpy() >= WATCHED))
    hosts = watched["host"].to_pylist()
    if watched.num_rows < LEAST_GROUPS or len(set(hosts)) < LEAST_HOSTS:
        return None
    return Known(_looks(watched).features(), np.log(watched["rate"].to_numpy()), hosts)


def learn(looks: pa.Table, before: Known | None = None) -> Outcome:
    """Priors of the cold groups among `looks` (rows of `LOOKS`), learnt from those that were watched. `before`: what
    the version in force learnt from."""
    checks, hosts = looks["checks"].to_numpy(), np.array(looks["host"].to_pylist(), dtype=object)
    watched, cold = checks >= WATCHED, checks < COLD
    known_hosts = len(set(hosts[watched]))
    counts = {
        "groups_learnt_from": int(watched.sum()),
        "hosts_learnt_from": known_hosts,
        "cold": int(cold.sum()),
    }
    empty = COLD_PRIORS.schema.empty_table()
    if watched.sum() < LEAST_GROUPS or known_hosts < LEAST_HOSTS:
        reason = f"too little is known: it takes {LEAST_GROUPS} groups of {LEAST_HOSTS} hosts with {WATCHED} checks"
        return Outcome(empty, None, reason, counts)
    features, log_rate = _looks(looks).features(), np.log(looks["rate"].to_numpy())
    judged = judge(features[watched], log_rate[watched], hosts[watched].tolist(), before)
    if not judged.no_worse:
        return Outcome(empty, judged, "the model is worse than its previous version, which stays", counts)
    if not judged.better:
        return Outcome(empty, judged, "the model is no better than the mean of all groups", counts)
    if not cold.any():
        return Outcome(empty, judged, "no group is cold", counts)
    guess = predict(features[watched], log_rate[watched], features[cold])
    shape = float(np.median(looks["prior_a"].to_numpy()[watched]))
    a, b = of_a_new_page(guess, judged.squared, shape)
    named = looks.select(["host", "group_id", "template"]).filter(pa.array(cold))
    columns = {name: named[name] for name in named.column_names}
    rows = {**columns, "prior_a": a, "prior_b": b, "predicted_rate": np.exp(guess)}
    return Outcome(pa.table(rows, schema=COLD_PRIORS.schema), judged, "", counts)


def _looks(table: pa.Table) -> Looks:
    def numbers(name: str) -> Any:
        return table[name].to_numpy().astype(np.float64)

    return Looks(
        template=table["template"].to_pylist(),
        depth=numbers("depth"),
        in_links=numbers("in_links"),
        main_share=numbers("main_links"),
        known_urls=numbers("known_urls"),
        trust=numbers("trust"),
        anchors=table["anchors"].to_pylist(),
        types=table["types"].to_pylist(),
        listed=numbers("listed"),
        dated=numbers("dated"),
        linked_by=numbers("linked_by"),
        linkers_useful=numbers("linkers_useful"),
    )


def _errors(judged: Judged | None) -> dict[str, float]:
    """Errors as factors: 2.0 means that a guess is off by a factor of two on average."""
    if judged is None:
        return {}
    return {
        "held_out_error_factor": float(np.exp(judged.model)),
        "error_factor_of_the_mean": float(np.exp(judged.baseline)),
        **({} if judged.previous is None else {"previous_error_factor": float(np.exp(judged.previous))}),
    }


def no_worse(outcome: Outcome) -> bool:
    """Whether the model may take the place of the one in force."""
    return outcome.judged is None or outcome.judged.no_worse


def no_worse_than_before(outcome: Outcome) -> dg.AssetCheckResult:
    """A warning: nothing bad was written, and what was good a day ago may go on."""
    return dg.AssetCheckResult(
        check_name="no_worse_than_before",
        passed=no_worse(outcome),
        severity=dg.AssetCheckSeverity.WARN,
        description="" if no_worse(outcome) else outcome.reason,
        metadata=_errors(outcome.judged),
    )


def better_than_the_mean(outcome: Outcome) -> dg.AssetCheckResult:
    """An error only where priors of a bad model were written: an empty table harms nobody."""
    judged, given = outcome.judged, outcome.rows.num_rows
    return dg.AssetCheckResult(
        check_name="better_than_the_mean",
        passed=judged is None or judged.better,
        severity=dg.AssetCheckSeverity.ERROR if given else dg.AssetCheckSeverity.WARN,
        description=outcome.reason,
        metadata={"priors_given": given, **_errors(judged)},
    )
