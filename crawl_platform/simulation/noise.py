"""What differs on every response although nothing was said: ads, timestamps, tokens, counters, session ids.

Noise stands only where sites put it: in `.ad` blocks, `.generated` lines, `<time>`, scripts, HTML comments, a csrf
meta tag and hidden inputs. Session ids stand in links, and only on hosts that carry them.
"""

from datetime import UTC, datetime

from crawl_platform.simulation import chance

SESSION_PARAMETER = "sid"

_BRANDS = ("Nordlicht", "Vela", "Quanto", "Bramble", "Ostara", "Fennick", "Lumo", "Tarn", "Pelago", "Cobalt")
_PITCHES = (
    "shoes that outlast the road",
    "insurance without the small print",
    "three months of music for one",
    "a mattress you will not return",
    "coffee, ground this morning",
    "flights from 39.90",
    "the notebook engineers choose",
    "solar power on your balcony",
)

SLOTS = ("ad-top", "ad-side", "stamp", "token", "millis", "visitors", "session")
MARK = "\x01"


def slot(name: str) -> str:
    """Placeholder that a template carries for one kind of noise."""
    return f"{MARK}{SLOTS.index(name)}{MARK}"


def draw(seed: int, at: float, serial: int, session: str) -> tuple[bytes, ...]:
    """One value per slot, in the order of `SLOTS`, for the response number `serial` sent at `at`."""
    bits = chance.key(seed, "noise", serial, at)
    stamp = datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds")
    values = (
        f"{_BRANDS[bits % 10]}: {_PITCHES[(bits >> 8) % 8]} #{bits >> 44}",
        f"{_BRANDS[(bits >> 16) % 10]}: {_PITCHES[(bits >> 20) % 8]} #{(bits >> 30) & 0xFFFF}",
        stamp,
        f"{bits:016x}",
        str(3 + (bits >> 24) % 400),
        str((bits >> 12) % 5000),
        session or f"{bits ^ 0x5DEECE66D:016x}",
    )
    return tuple(v.encode() for v in values)
