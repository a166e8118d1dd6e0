"""The report of a decision about promotions: who comes in and why, who does not, in words that need no graph theory.

One page of markdown for Dagster's UI, for the run that decides and for a preview: what was decided, each promoted host
with its evidence, the hosts beside the horizon and their neighbourhoods, why others are held, and what became of
earlier ones.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import dagster as dg
import pyarrow as pa
import pyarrow.compute as pc

from assets.plots import markdown_table
from assets.probation import Judgement
from assets.promotion_decision import Promotion
from assets.promotion_figures import Strip, comparison
from assets.promotion_pictures import neighbourhood_pictures, surroundings
from crawl_platform.graph.promotion import Candidate
from crawl_platform.lake.lake import Lake
from resources.lake import Reading

SHOWN_HELD = 20
COMPARED = 20
PROMOTED_COLUMNS = (
    "host", "comes in because", "vouched for by", "place", "trust", "links like a farm's?", "pages known",
)  # fmt: skip
HELD_COLUMNS = ("why hosts stay outside", "hosts", "what would change it")
HELD_ROWS = ("host", "held for", "in detail")
TRIAL_COLUMNS = ("host on probation", "verdict", "days", "pages", "of no use", "why")
RECENT_COLUMNS = ("host", "decided at", "why")
WHAT_HELPS = {
    "excluded": "lifting the exclusion: `crawl exclude --lift`",
    "veto": "an operator took it out: `crawl promote HOST` or `crawl seed HOST`",
    "floor": "links from hosts with more trust, or that link to fewer others",
    "support": "one more independent site of the seed that links to it, or the time that new ones need to count",
    "rest": "time: it was tried, and its pages were of no use",
    "spam": "links by its neighbours' owners; a request by name lets it in all the same: `crawl promote HOST`",
}
"""Cause of a held host → what would let it in."""
RANKED = """
SELECT trust, independent_support, per_supporter, vouched FROM host_ranks WHERE state = 'horizon' AND trust > 0
"""
RECENT = """
SELECT host, strftime(decided_at, '%Y-%m-%d %H:%M:%S') AS decided_at, reason
FROM promotions ORDER BY decided_at DESC, position, host LIMIT 10
"""


def promotion_report(
    reading: Reading,
    decided: Sequence[Promotion],
    judged: Sequence[Judgement],
    store: Lake,
    *,
    preview: bool = False,
) -> dg.MarkdownMetadataValue:
    """`reading`: what it was decided from; `store`: where the last promotions stand by now."""
    promoted = [promotion for promotion in decided if promotion.promoted]
    held = [promotion for promotion in decided if not promotion.promoted]
    horizon = reading.table(RANKED)
    recent = [list(row.values()) for row in store.query(RECENT).to_pylist()]
    parts = [
        _headline(promoted, held, horizon.num_rows, preview),
        _section("Promoted", PROMOTED_COLUMNS, [_promoted_row(p, horizon.num_rows) for p in promoted]),
        *_pictures(reading, promoted, horizon),
        _section("Held", HELD_COLUMNS, _causes(held)),
        _section("", HELD_ROWS, [[p.host, p.cause, p.reason] for p in held[:SHOWN_HELD]]) if held else "",
        _section("On probation", TRIAL_COLUMNS, [_trial_row(j) for j in judged]),
        _section("The last promotions", RECENT_COLUMNS, recent),
        f"Computed from {', '.join(f'{table} {version}' for table, version in sorted(reading.inputs.items()))}.",
    ]
    return dg.MetadataValue.md("\n\n".join(filter(None, parts)))


def _headline(promoted: Sequence[Promotion], held: Sequence[Promotion], horizon: int, preview: bool) -> str:
    asked = sum(promotion.requested for promotion in promoted)
    would = "would be" if preview else "were"
    lines = [
        f"**{_count(len(promoted), 'host')} {would} promoted**, {asked} of them asked for by name; {horizon} stand on "
        f"the horizon with some trust, {len(held)} of the first ones {would} held."
    ]
    if promoted or held:
        rules = (promoted or held)[0].rules
        lines.append(
            f"A decision lets in {rules.quota} at most. A host needs {rules.min_support} independent sites of the seed "
            f"that link to it, a trust of {rules.floor:.1e}, and links that don't look like a farm's."
        )
    return " ".join(lines)


def _section(title: str, header: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    table = str(markdown_table(header, rows).md_str)
    return f"#### {title}\n\n{table}" if title else table


def _promoted_row(promotion: Promotion, horizon: int) -> list[object]:
    c = promotion.candidate
    why = promotion.reason if promotion.requested else "the seed's links lead to it"
    related = promotion.relatives.size - 1 if promotion.relatives else 0
    kin = f"; belongs together with {_count(related, 'other host')}" if related else ""
    if c is None:
        return [
            promotion.host,
            why + kin,
            _some(promotion.supporters),
            "not ranked",
            "",
            "",
            len(promotion.urls),
        ]
    times = (
        f"{c.trust / promotion.rules.floor:,.0f} times the least"
        if promotion.rules.floor
        else f"{c.trust:.1e}"
    )
    return [
        promotion.host,
        why + kin,
        f"{_count(c.independent_support, 'independent site')}: {_some(promotion.supporters)}",
        f"{c.position} of {horizon}",
        times,
        _farm_in_words(c),
        len(promotion.urls),
    ]


def _farm_in_words(c: Candidate) -> str:
    """What a link farm is told by: links in bulk, and nobody known behind them."""
    answer = "no" if c.eligible else "yes"
    return f"{answer}: {c.per_supporter:.3g} links per site, {c.vouched:.0%} of its rank from known sites"


def _causes(held: Sequence[Promotion]) -> list[list[object]]:
    counts = Counter(promotion.cause for promotion in held)
    return [[cause, number, WHAT_HELPS[cause]] for cause, number in counts.most_common()]


def _trial_row(judgement: Judgement) -> list[object]:
    trial, outcome = judgement.trial, judgement.outcome
    return [trial.host, outcome.verdict, f"{trial.days:.1f}", trial.tried, trial.useless, outcome.reason]


def _pictures(reading: Reading, promoted: Sequence[Promotion], horizon: pa.Table) -> list[str]:
    ranked = [(p, p.candidate) for p in promoted if p.candidate is not None][:COMPARED]
    pictures = neighbourhood_pictures(surroundings(reading, list(promoted)))
    if ranked:
        title = (
            "Promoted hosts (orange) beside the horizon (grey: 80 % of it, tick: the median; red: the least)"
        )
        strips = _strips(
            horizon, [c for _, c in ranked], ranked[0][0].rules.floor, ranked[0][0].rules.min_support
        )
        pictures.insert(0, str(comparison(title, [p.host for p, _ in ranked], strips).md_str))
    return pictures


def _strips(horizon: pa.Table, hosts: Sequence[Candidate], floor: float, support: int) -> list[Strip]:
    known: Mapping[str, Any] = {name: pc.drop_null(horizon[name]).to_numpy() for name in horizon.column_names}
    return [
        Strip("trust", known["trust"], [c.trust for c in hosts], floor or None),
        Strip(
            "independent sites linking to it", known["independent_support"],
            [c.independent_support for c in hosts], support,
        ),
        Strip("links per such site", known["per_supporter"], [c.per_supporter for c in hosts]),
        Strip("rank from known sites", known["vouched"], [c.vouched for c in hosts], log=False),
    ]  # fmt: skip


def _some(hosts: Sequence[str]) -> str:
    return ", ".join(hosts[:3]) + (", …" if len(hosts) > 3 else "") if hosts else "nobody yet"


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
