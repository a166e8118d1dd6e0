"""What the link graphs of hosts and of pages have in common as states on disk: link sets in two layers, the versions
that a state stands at, and whether another goes on from it.
"""

import secrets
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from crawl_platform.errors import DamagedStateError
from crawl_platform.graph.host_links import COUNTS
from crawl_platform.graph.link_kernels import Keys
from crawl_platform.graph.link_sets import LinkSets, SetLayers
from crawl_platform.graph.names import merged
from crawl_platform.lake.arrays import Generation, current
from crawl_platform.lake.changes import Mark
from resources.link_news import News, Seen, pages_of

G = TypeVar("G")
SETS = ("page", "host", "moment", "link_set", "ends", "target", "counts")
LAYERS = ("base", "top")
FOLDED = 8
"""What has changed is written anew with each update, so it is laid into the base once it is an eighth of that."""


def no_sets(width: int = len(COUNTS), dtype: type[np.integer] = np.uint32) -> SetLayers:
    return SetLayers(LinkSets.empty(width, dtype), LinkSets.empty(width, dtype))


def new_secret() -> Keys:
    return np.frombuffer(secrets.token_bytes(16), np.uint64).copy()


def kept_state(
    folder: Path, layout: int, read: Callable[[Generation], G]
) -> tuple[G, dict[str, Mark], str] | None:
    """The graph that is kept in `folder`, at which versions, and the name of that state; None: there is none, it can't
    be read, or its arrays are laid out otherwise."""
    kept = current(folder)
    if kept is None or kept.facts.get("format") != layout:
        return None
    try:
        return read(kept), _marks_of(kept), kept.folder.name
    except DamagedStateError:
        return None


def _marks_of(kept: Generation) -> dict[str, Mark]:
    return {name: Mark(*told) for name, told in kept.facts["marks"].items()}


def loaded_sets(kept: Generation) -> SetLayers:
    return SetLayers(*(LinkSets(*(kept.array(f"sets.{layer}.{n}") for n in SETS)) for layer in LAYERS))


def label_of(versions: Mapping[str, int]) -> str:
    return "-".join(f"{name}-{version}" for name, version in sorted(versions.items()))


def is_current(folder: Path, generation: str) -> bool:
    """Whether nobody has kept another state meanwhile: only then can its files be taken over."""
    kept = current(folder)
    return kept is not None and kept.folder.name == generation


def is_thin(top: int, base: int) -> bool:
    """Whether what has changed stays a layer of its own; else it is laid into a new base."""
    return top * FOLDED < base


def sets_to_keep(sets: SetLayers, goes_on: bool) -> tuple[dict[str, Any], list[str]]:
    """(arrays by name; the names of those that are the same as before)."""
    same = goes_on and is_thin(len(sets.top.target), len(sets.base.target))
    if not same:
        sets = SetLayers(sets.whole(), sets.top.only(sets.top.page[:0]))
    arrays = {
        f"sets.{layer}.{name}": getattr(getattr(sets, layer), name) for layer in LAYERS for name in SETS
    }
    return arrays, [f"sets.base.{name}" for name in SETS if same]


def asked_for(sets: SetLayers, told: News, seen: Seen) -> LinkSets:
    """What is known of the pages that were read, or whose links have come."""
    if told.anew:
        return sets.base
    return sets.only(merged(seen.visits.page, pages_of(told.files["links"], seen.secret)))


def changed_sets(sets: SetLayers, new: LinkSets, told: News) -> SetLayers:
    return SetLayers(new, sets.top) if told.anew else sets.under(new)
