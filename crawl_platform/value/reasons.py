"""Why a page is worth what it is, in words: what counts for or against it by a tenth or more."""

from collections.abc import Mapping, Sequence

NOTABLE = 0.1
NAMED_TOPICS = 3
USUAL = "worth what its depth says"
_SAID = {
    "ir": ("good to retrieve", "little to retrieve"),
    "corpus": ("fills a gap", "more of what there is"),
    "importance": ("much is linked to it", "little is linked to it"),
    "exploration": ("little is known of its group", "much is known of its group"),
}


def reason(
    factors: Mapping[str, float],
    topics: Sequence[tuple[str, float]],
    fault: str,
    left: float,
    retrievals: float,
    floor: float | None,
) -> str:
    """`factors`: by what each additive signal multiplies; `topics`: name and part in the business signal; `left`:
    what the `fault` leaves; `floor`: of a critical page that would be worth less without it."""
    parts = [] if floor is None else [f"critical, at least {floor:.4g}"]
    if _notable(factors["business"]):
        named = sorted(topics, key=lambda topic: (-abs(topic[1]), topic[0]))[:NAMED_TOPICS]
        parts.append(f"about {', '.join(name for name, _ in named)} (×{factors['business']:.2g})")
    if retrievals >= 1.0:
        parts.append(f"retrieved {retrievals:,.0f} times lately")
    for name, (more, less) in _SAID.items():
        if _notable(factors[name]):
            parts.append(f"{more if factors[name] > 1 else less} (×{factors[name]:.2g})")
    if fault:
        parts.append(f"{fault} (×{left:.2g})")
    return "; ".join(parts) or USUAL


def _notable(factor: float) -> bool:
    return abs(factor - 1.0) >= NOTABLE
