"""Whether a host cares for the order of its URLs' parameters, learnt from the pages that it serves.

Two URLs that differ in nothing but that order and show the same page are a proof; `PROOFS` of them, of different
URLs and different pages, and the host's URLs are sorted from then on (`web.parameters`). One pair that shows two
pages, or a redirect from one order to another, and they never are again. Pure; kept in the host's record.

    learning ── PROOFS independent pairs ──► irrelevant
        └──────── a counter-example ────────────┴──► refuted (for good)

Of a large host only a sample of the URLs is remembered: those whose sorted form has the least hash. Both URLs of a
pair have the same sorted form, so a pair is in the sample as a whole or not at all.
"""

from typing import Self

import msgspec
import xxhash

from crawl_platform.web.parameters import sorted_by_name

PROOFS = 5
KEPT = 64
"""Sorted forms remembered per host, of at most 30 bytes each in its record: 2 KB."""
SAME_TIME = 3_600.0
"""Seconds between two visits beyond which a difference may be a change of the page."""


class Sample(msgspec.Struct, array_like=True, frozen=True):
    """The last visit to a URL with this sorted form. Hashes of 32 bits; `at`: UTC seconds."""

    url: int
    fingerprint: int
    at: int
    counted: bool = False
    """It has given its proof."""


class OrderEvidence(msgspec.Struct, array_like=True, frozen=True):
    samples: dict[int, Sample] = {}
    proofs: tuple[int, ...] = ()
    """Hashes of the pages that were shown whatever the order."""
    refuted: bool = False

    @property
    def irrelevant(self) -> bool:
        """Whether the order of parameters means nothing, as far as is known."""
        return not self.refuted and len(self.proofs) >= PROOFS

    def visited(self, url: str, fingerprint: str, at: float) -> Self:
        """A visit to the canonical `url` has brought the page with this fingerprint ("" tells nothing)."""
        if self.refuted or not fingerprint or not _has_order(url):
            return self
        form, seen = _hash(sorted_by_name(url)), Sample(_hash(url), _hash(fingerprint), int(at))
        known = self.samples.get(form)
        if known is None or known.url == seen.url:
            return self._keeping(form, seen, known is not None and known.counted)
        if known.fingerprint == seen.fingerprint:
            return self._proven(form, seen, known.counted)
        if abs(at - known.at) <= SAME_TIME:
            return self._refuted()
        return self._keeping(form, seen, known.counted)

    def redirected(self, url: str, target: str) -> Self:
        """`url` redirects to `target`: a host that insists on an order cares for it."""
        if self.refuted or url == target or not _has_order(url):
            return self
        return self._refuted() if sorted_by_name(url) == sorted_by_name(target) else self

    def _proven(self, form: int, seen: Sample, counted: bool) -> Self:
        news = not counted and seen.fingerprint not in self.proofs and len(self.proofs) < PROOFS
        proofs = (*self.proofs, seen.fingerprint) if news else self.proofs
        return msgspec.structs.replace(self._keeping(form, seen, counted or news), proofs=proofs)

    def _keeping(self, form: int, seen: Sample, counted: bool) -> Self:
        samples = {**self.samples, form: msgspec.structs.replace(seen, counted=counted)}
        if len(samples) > KEPT:
            del samples[max(samples)]
        return msgspec.structs.replace(self, samples=samples)

    def _refuted(self) -> Self:
        return type(self)(refuted=True)


def _has_order(url: str) -> bool:
    """Whether there are parameters of two names."""
    query = url.partition("?")[2]
    return "&" in query and len({part.partition("=")[0] for part in query.split("&")}) > 1


def _hash(text: str) -> int:
    return xxhash.xxh3_64_intdigest(text.encode()) >> 32
