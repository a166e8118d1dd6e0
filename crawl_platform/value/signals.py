"""The signals of a page's value and the one way in which they are combined: arrays in, arrays out.

    value = base · technical · 2^(3·business + ir' + corpus'/2 + exploration'/2 + 1.5·importance'),
            at least the floor if critical

`base` is what the fleet thinks by depth alone; a dash means: less the mean of all pages that were read, so that the
usual page keeps its base. Weights (powers of two per unit) are settings. What is not known (NaN) says nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from crawl_platform.settings import Value

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

ENOUGH_WORDS = 300
"""Words from which on a text is no better for being longer."""
FEW_TITLES = 3
"""Pages of a host that may share a title; beyond that it is the site's, not the page's."""
WORDS_PER_LINK = 5.0
"""A page with one link per so many words is half text, half list."""
HALF_DEMAND = 10.0
"""Retrievals (faded) with which a page is as good as half proven useful."""
DEMAND_HALF_LIFE = 30.0
"""Days after which a retrieval counts half."""
RARE = 3.0
"""Orders of magnitude: what a thousandth of all pages is, or less, is as rare as can be."""
KNOWN_BY = 4.0
"""Pages of a group after which what it is worth is known √2 times better than at the start."""
FAULTS = {
    "soft error": 0.1,
    "gone": 0.1,
    "duplicate": 0.2,
    "canonical elsewhere": 0.2,
    "not to be indexed": 0.3,
    "failing": 0.5,
}
"""What is left of the value of a page with such a fault. Of several the worst counts: they have one cause."""
IMPORTANT = 0.9
"""Importance from which on a page that was never read is looked at for that alone: a tenth of all."""
LEAST, MOST = 1e-3, 1e3
"""Bounds of a value: beyond these pages would be as good as forbidden, or come before all else for ever."""
MATERIAL = 0.5
"""Powers of two by which a value has to differ from the one that the fleet believes, to be told: √2."""


def quality(words: ArrayLike, links: ArrayLike, same_title: ArrayLike, same_text: ArrayLike) -> Floats:
    """How useful a page's text is for retrieval, 0 to 1 (N,).

    0.4 for length, 0.2 for a title of its own (half of that for one that the host uses again and again), 0.2 for
    prose rather than links, 0.2 for a text that no other page has. `same_title`: pages of the host with its title,
    0: it has none; `same_text`: pages with its text.
    """
    w, shared = np.asarray(words, np.float64), np.asarray(same_title, np.float64)
    length = np.minimum(1.0, np.log1p(w) / np.log1p(ENOUGH_WORDS))
    title = np.where(shared <= 0, 0.0, np.where(shared <= FEW_TITLES, 1.0, 0.5))
    prose = w / np.maximum(w + WORDS_PER_LINK * np.asarray(links, np.float64), 1.0)
    alone = 1.0 / np.maximum(np.asarray(same_text, np.float64), 1.0)
    found: Floats = 0.4 * length + 0.2 * title + 0.2 * prose + 0.2 * np.where(w > 0, alone, 0.0)
    return found


def retrieval(text: ArrayLike, retrievals: ArrayLike) -> Floats:
    """The IR signal, 0 to 1 (N,): useful by its text (`quality`), or proven useful by retrievals (faded counts)."""
    r = np.asarray(retrievals, np.float64)
    demand = r / (r + HALF_DEMAND)
    known = np.where(np.isnan(text), np.where(r > 0, 0.0, np.nan), text)
    signal: Floats = 1.0 - (1.0 - known) * (1.0 - demand)
    return signal


def rarity(share: ArrayLike) -> Floats:
    """0 for what all pages are, ⅓ for what a tenth are, 1 for a thousandth and less."""
    with np.errstate(divide="ignore"):
        rare: Floats = np.clip(-np.log10(np.asarray(share, np.float64)) / RARE, 0.0, 1.0)
    return rare


def corpus(group_read: ArrayLike, language_share: ArrayLike, type_share: ArrayLike) -> Floats:
    """How much of a gap a page fills, 0 to 1 (N,): the mean of what is known of three.

    Pages of its group that have not been read (1 − `group_read`), and how rare its language and its entity type are
    among all pages (`rarity` of their shares).
    """
    gaps = np.array([1.0 - np.asarray(group_read, np.float64), rarity(language_share), rarity(type_share)])
    known = ~np.isnan(gaps)
    count = known.sum(axis=0)
    mean = np.where(known, gaps, 0.0).sum(axis=0) / np.maximum(count, 1)
    filled: Floats = np.where(count > 0, mean, np.nan)
    return filled


def exploration(pages: ArrayLike) -> Floats:
    """How unsure it is what a page's group is worth, 0 to 1 (N,): the standard error of a mean over the `pages` of
    the group that were read, as part of that before the first."""
    n = np.nan_to_num(np.asarray(pages, np.float64))
    unsure: Floats = 1.0 / np.sqrt(1.0 + n / KNOWN_BY)
    return unsure


def technical(faults: Sequence[tuple[str, Flags]], n: int) -> tuple[Floats, list[str]]:
    """The technical signal of N pages, 0 to 1, and the fault behind it ("": none). `faults`: name (of `FAULTS`), who
    has it."""
    left, worst = np.ones(n), np.full(n, "", dtype=object)
    for name, who in faults:
        worse = who & (FAULTS[name] < left)
        left, worst = np.where(worse, FAULTS[name], left), np.where(worse, name, worst)
    return left, worst.tolist()


@dataclass(frozen=True)
class Signals:
    """Arrays (N,). Business lies between −1 and 1, the others between 0 and 1; NaN where one is not known. `read`: the
    pages that were read, whose means are those of the usual page."""

    business: Floats
    ir: Floats
    corpus: Floats
    technical: Floats
    exploration: Floats
    importance: Floats
    read: Flags


def exponents(signals: Signals, weights: Value) -> dict[str, Floats]:
    """Powers of two that each of the five additive signals gives, by name (N,): 0 for the usual page."""
    return {
        "business": weights.business * np.nan_to_num(signals.business),
        "ir": weights.ir * _beyond_mean(signals.ir, signals.read),
        "corpus": weights.corpus * _beyond_mean(signals.corpus, signals.read),
        "exploration": weights.exploration * _beyond_mean(signals.exploration, signals.read),
        "importance": weights.importance * _beyond_mean(signals.importance, signals.read),
    }


def combined(base: ArrayLike, signals: Signals, critical: ArrayLike, weights: Value) -> Floats:
    """Value of each page (N,): the formula above."""
    power = np.clip(np.sum(list(exponents(signals, weights).values()), axis=0), -60.0, 60.0)
    plain = np.asarray(base, np.float64) * np.nan_to_num(signals.technical, nan=1.0) * np.exp2(power)
    floor = np.where(np.asarray(critical, bool), weights.critical_floor, LEAST)
    value: Floats = np.clip(np.maximum(plain, floor), LEAST, MOST)
    return value


def _beyond_mean(signal: Floats, read: Flags) -> Floats:
    known = ~np.isnan(signal)
    usual = signal[known & read]
    mean = float(usual.mean()) if len(usual) else 0.5
    beyond: Floats = np.where(known, signal - mean, 0.0)
    return beyond


def material(value: Floats, believed: Floats) -> Flags:
    """Where a value differs so much from the one believed that it has to be told (N,)."""
    differs: Flags = np.abs(np.log2(value / believed)) >= MATERIAL
    return differs
