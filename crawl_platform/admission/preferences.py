"""What this crawl does about a site's wishes: which of its purposes they refuse, and what is kept then.

Sans-IO. A purpose is refused by a "no" about it or about a category that includes it (training is a kind of text and
data mining); where a site says nothing, `Citizenship.silence` decides. What a host has agreed to (`agreed`, a
contract) is not refused by what its pages say. A "no" about `archive` is no purpose's: it means the page's bytes.
"""

from typing import NamedTuple

import msgspec
import xxhash

from crawl_platform.settings import Citizenship
from crawl_platform.web.preferences import Preferences

INCLUDED_IN = {"ai-train": ("tdm",), "ai-images": ("tdm", "ai-train")}
"""Category → categories whose refusal refuses it too."""

ALL, NO_BODY, FACTS = "all", "no_body", "facts"
"""What is kept of a page: everything; all but its bytes; nothing of what it says (no text or title)."""


BY_PAGE = "use_refused_by_page"
"""Why a page is not fetched that has refused a use itself, with the policy under which it was (`dropped_by_page`)."""


class Treatment(NamedTuple):
    """`refused`: purposes of the crawl that the site does not want. `again`: whether the page is fetched again."""

    refused: tuple[str, ...]
    keep: str
    again: bool


def treatment(preferences: Preferences, citizenship: Citizenship) -> Treatment:
    """What follows for a page from its preferences and the crawl's policy for its host."""
    refused = tuple(p for p in citizenship.purposes if _refused(p, preferences, citizenship))
    keep = ALL
    if citizenship.on_refusal != "record":
        if refused:
            keep = FACTS
        elif preferences.of("archive") is False and "archive" not in citizenship.agreed:
            keep = NO_BODY
    return Treatment(refused, keep, not (refused and citizenship.on_refusal == "stop"))


def dropped_by_page(citizenship: Citizenship) -> str:
    """Reason for which a page is dropped that has refused a use of itself. It names the policy of that day: under
    another one the page has to be looked at again."""
    policy = xxhash.xxh32_hexdigest(msgspec.json.encode(citizenship))
    return f"{BY_PAGE}:{policy}"


def _refused(purpose: str, preferences: Preferences, citizenship: Citizenship) -> bool:
    if purpose in citizenship.agreed:
        return False
    if any(preferences.of(category) is False for category in (purpose, *INCLUDED_IN.get(purpose, ()))):
        return True
    return citizenship.silence == "refuse" and preferences.of(purpose) is None
