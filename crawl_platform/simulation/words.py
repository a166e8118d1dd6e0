"""Text that reads a little like text: sentences put together from phrases of a topic."""

import random
from functools import cache

TOPICS: dict[str, tuple[str, ...]] = {
    "gardens": ("hedge", "orchard", "seedling", "compost", "trellis", "meadow", "greenhouse", "soil", "bulb"),
    "sailing": ("harbour", "mast", "tide", "anchor", "hull", "rudder", "jib", "buoy", "keel", "current"),
    "databases": ("index", "transaction", "replica", "query", "snapshot", "journal", "schema", "cursor", "page"),
    "astronomy": ("comet", "aperture", "nebula", "orbit", "spectrum", "eclipse", "mirror", "pulsar", "dust", "transit"),
    "cooking": ("dough", "broth", "oven", "marinade", "knife", "spice", "ferment", "glaze", "pastry", "pickle"),
    "railways": ("signal", "carriage", "timetable", "gauge", "junction", "platform", "locomotive", "siding", "fare"),
    "birds": ("nest", "plumage", "migration", "feather", "song", "wetland", "clutch", "flock", "perch", "moult"),
    "ceramics": ("kiln", "glaze", "clay", "wheel", "slip", "vessel", "stoneware", "firing", "porcelain", "shard"),
    "networks": ("router", "packet", "socket", "buffer", "latency", "gateway", "checksum", "route", "frame"),
    "medicine": ("vaccine", "dose", "clinic", "trial", "symptom", "antibody", "nurse", "diagnosis", "therapy", "ward"),
    "bargains": ("bonus", "voucher", "discount", "offer", "deal", "prize", "cashback", "coupon", "jackpot", "loan"),
}  # fmt: skip

_GENERAL = (
    "method", "result", "season", "report", "guide", "pattern", "record", "problem", "measure", "collection",
    "committee", "archive", "region", "workshop", "student", "engineer", "museum", "budget", "survey", "proposal",
)  # fmt: skip
_ADJECTIVES = (
    "early", "quiet", "broken", "careful", "northern", "heavy", "modern", "narrow", "open", "common", "patient",
    "rare", "rough", "shared", "simple", "steady", "strange", "sudden", "useful", "wide", "second", "local",
)  # fmt: skip
_VERBS = (
    "replaces", "describes", "follows", "improves", "depends on", "contradicts", "explains", "supports", "protects",
    "changes", "measures", "outlasts", "requires", "resembles", "precedes", "limits", "extends", "records",
    "surprised", "questioned", "confirmed", "delayed", "restored", "avoided", "compared", "inspected",
)  # fmt: skip
_TAILS = (
    "in most years", "after the first winter", "when nobody is watching", "according to the notes",
    "as the table shows", "without any loss", "on both sides of the river", "for reasons given below",
    "before the meeting in March", "with a margin of two per cent", "under ordinary conditions",
    "unless the weather turns", "at a modest cost", "since the new rules", "in three of five cases",
    "as visitors often remark", "to the surprise of its authors", "within a few minutes",
)  # fmt: skip
_NAMES = (
    "alder", "birch", "cedar", "dogwood", "elm", "fern", "gorse", "hazel", "iris", "juniper", "kale", "laurel",
    "maple", "nettle", "oak", "poplar", "quince", "rowan", "sorrel", "thyme", "umber", "violet", "willow", "yarrow",
)  # fmt: skip

SCRIPTS = {
    "utf-8": "Résumé – naïve façade – 資料",
    "windows-1252": "Café “déjà vu” – à bientôt",
    "iso-8859-1": "Über größere Änderungen",
    "koi8-r": "Справочник и новости для читателей",
    "shift_jis": "資料とお知らせのページ",
}
"""A phrase that only decodes rightly in its own charset."""


class Vocabulary:
    """Phrase pools of one topic; each method takes the generator that decides."""

    def __init__(self, topic: str) -> None:
        nouns = TOPICS[topic] + _GENERAL
        phrases = [f"{a} {n}" for a in _ADJECTIVES for n in nouns]
        self._nouns = nouns
        self._subjects = [f"{d} {p}" for d in ("The", "A", "Every") for p in phrases]
        self._objects = [f"{d} {p}" for d in ("the", "each", "another") for p in phrases]

    def paragraph(self, rng: random.Random, sentences: int = 5) -> str:
        """About 70 characters per sentence."""
        parts = zip(
            rng.choices(self._subjects, k=sentences),
            rng.choices(_VERBS, k=sentences),
            rng.choices(self._objects, k=sentences),
            rng.choices(_TAILS, k=sentences),
            strict=True,
        )
        return " ".join(f"{s} {v} {o} {t}." for s, v, o, t in parts)

    def title(self, rng: random.Random) -> str:
        """Four or five words."""
        return f"{rng.choice(self._subjects)} {rng.choice(_VERBS)} {rng.choice(self._objects)}"

    def slug(self, rng: random.Random) -> str:
        """Two words that fit into a URL."""
        return f"{rng.choice(_ADJECTIVES)}-{rng.choice(self._nouns)}"


@cache
def vocabulary(topic: str) -> Vocabulary:
    """The vocabulary of a topic; pure, so built once per process."""
    return Vocabulary(topic)


def person(rng: random.Random) -> str:
    """A user name."""
    return f"{rng.choice(_NAMES)}{rng.randrange(10, 100)}"


def hostname(rng: random.Random, topic: str) -> str:
    """A second-level name under .test, e.g. rowan-orchard.test."""
    return f"{rng.choice(_NAMES)}-{rng.choice(TOPICS[topic])}.test"
