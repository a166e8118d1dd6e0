"""From what is known of pages to what they are worth: rows of `page_values`, and what the fleet has to hear."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from assets.value_evidence import Evidence
from crawl_platform.clock import as_datetime
from crawl_platform.fleet.messages import Worth
from crawl_platform.frontier.lease import value_at
from crawl_platform.lake.tables import PAGE_VALUES
from crawl_platform.settings import Value
from crawl_platform.value.reasons import reason
from crawl_platform.value.signals import (
    IMPORTANT,
    Signals,
    combined,
    corpus,
    exploration,
    exponents,
    material,
    quality,
    retrieval,
    technical,
)
from crawl_platform.value.topics import Strengths, Topics, together

MOST_TOLD = 100_000
"""Values told by one run, those that change most; the others follow with the next."""
BY_DEPTH = "worth what its depth says again"
SIGNALS = ("business", "ir", "corpus", "technical", "exploration", "importance")
KEPT = (
    *("url", "host", "group_id", "fetch_id", "retrievals", "critical", "words", "language", "entity_type"),
    *("soft_error", "text_topics", "link_topics", "text_scored_by", "links_scored_by"),
)
"""Columns of the evidence that go into the table as they are."""

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class Appraised:
    """Rows of `page_values`, what the fleet has to hear, and how many changes have to wait."""

    rows: pa.Table
    news: list[Worth]
    waiting: int


@dataclass(frozen=True)
class Judged:
    """What was made of N pages; `strengths`: of each, by topic."""

    base: Floats
    critical: Flags
    retrievals: Floats
    strengths: list[Strengths]
    signals: Signals
    faults: list[str]
    value: Floats


def appraise(evidence: Evidence, topics: Topics, weights: Value, now: float) -> Appraised:
    """Values of the pages in `evidence`, with their reasons. `now`: UTC seconds."""
    found = evidence.pages
    judged = judge(found, topics, weights)
    kept = _worth_a_row(judged)
    believed = _or(_numbers(found, "believed"), judged.base)
    goal = np.where(kept, judged.value, judged.base)
    told, waiting = _to_tell(goal, believed)
    reasons = [
        why if row else BY_DEPTH for why, row in zip(_reasons(judged, topics, weights), kept, strict=True)
    ]
    columns = {
        **{name: found[name] for name in KEPT},
        **{name: _nullable(getattr(judged.signals, name)) for name in SIGNALS},
        "base": judged.base,
        "value": judged.value,
        "told": _nullable(np.where(told, goal, _numbers(found, "told"))),
        "reason": reasons,
        "fault": [name or None for name in judged.faults],
        "computed_at": [as_datetime(now)] * found.num_rows,
    }
    rows = pa.table({name: columns[name] for name in PAGE_VALUES.schema.names}, schema=PAGE_VALUES.schema)
    urls = found["url"].to_pylist()
    news = [Worth(urls[i], float(goal[i]), reasons[i]) for i in np.flatnonzero(told)]
    freed = [Worth(row["url"], row["base"], BY_DEPTH) for row in evidence.before]
    return Appraised(rows.filter(pa.array(kept)), [*news, *freed], waiting)


def judge(found: pa.Table, topics: Topics, weights: Value) -> Judged:
    """Signals and values of the pages in `found`."""
    strengths = [
        together(dict(text or ()), dict(link or ()))
        for text, link in zip(found["text_topics"].to_pylist(), found["link_topics"].to_pylist(), strict=True)
    ]
    by_depth = value_at(0) / (1.0 + _numbers(found, "depth"))
    base = np.maximum(_or(_numbers(found, "base"), by_depth), 1e-6)
    signals, faults = _signals(found, topics, strengths)
    critical = _flags(found, "critical")
    return Judged(
        base,
        critical,
        _numbers(found, "retrievals"),
        strengths,
        signals,
        faults,
        combined(base, signals, critical, weights),
    )


def _signals(found: pa.Table, topics: Topics, strengths: list[Strengths]) -> tuple[Signals, list[str]]:
    n, words = found.num_rows, _numbers(found, "words")
    business = np.array([topics.business(one) for one in strengths], np.float64)
    text = quality(words, *(_numbers(found, name) for name in ("links", "same_title", "same_text")))
    named = {"soft error": "soft_error", "canonical elsewhere": "elsewhere", "not to be indexed": "noindex"}
    plain = {name: name for name in ("gone", "duplicate", "failing")}
    left, faults = technical([(fault, _flags(found, name)) for fault, name in {**named, **plain}.items()], n)
    signals = Signals(
        business=business if topics.entries else np.full(n, np.nan),
        ir=retrieval(np.where(np.isnan(words), np.nan, text), _numbers(found, "retrievals")),
        corpus=corpus(*(_numbers(found, name) for name in ("group_read", "language_share", "type_share"))),
        technical=left,
        exploration=exploration(_numbers(found, "group_pages")),
        importance=_numbers(found, "importance"),
        read=found["fetch_id"].is_valid().to_numpy(zero_copy_only=False),
    )
    return signals, faults


def _worth_a_row(judged: Judged) -> Flags:
    """Pages that were read, and those of which something else is known than their depth."""
    said = np.nan_to_num(judged.signals.business) != 0.0
    important = judged.signals.importance >= IMPORTANT
    wanted: Flags = judged.signals.read | said | judged.critical | (judged.retrievals > 0) | important
    return wanted


def _to_tell(goal: Floats, believed: Floats) -> tuple[Flags, int]:
    """Which values are told now, and how many more will have to be."""
    due = material(goal, believed)
    first = np.zeros(len(goal), bool)
    first[np.argsort(-np.abs(np.log2(goal / believed)), kind="stable")[:MOST_TOLD]] = True
    return due & first, int(np.sum(due & ~first))


def _reasons(judged: Judged, topics: Topics, weights: Value) -> list[str]:
    factors = {
        name: np.exp2(np.clip(power, -60, 60)) for name, power in exponents(judged.signals, weights).items()
    }
    lifted = judged.critical & (judged.value <= weights.critical_floor)
    return [
        reason(
            {name: float(factor[i]) for name, factor in factors.items()},
            [(name, topics.weights.get(name, 0.0) * strength) for name, strength in strengths.items()],
            fault,
            float(judged.signals.technical[i]),
            float(judged.retrievals[i]),
            weights.critical_floor if lifted[i] else None,
        )
        for i, (strengths, fault) in enumerate(zip(judged.strengths, judged.faults, strict=True))
    ]


def _or(values: Floats, other: Floats) -> Floats:
    chosen: Floats = np.where(np.isnan(values), other, values)
    return chosen


def _numbers(found: pa.Table, name: str) -> Floats:
    numbers: Floats = found[name].to_numpy(zero_copy_only=False).astype(np.float64)
    return numbers


def _flags(found: pa.Table, name: str) -> Flags:
    flags: Flags = found[name].fill_null(False).to_numpy(zero_copy_only=False).astype(bool)
    return flags


def _nullable(values: Floats) -> pa.Array:
    return pa.array(values, from_pandas=True)  # NaN, not known, becomes null
