"""All misbehaviours, and the hosts that have them: each at an address of its own, on ports that all share."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from crawl_platform.simulation.hostile import (
    addresses,
    bombs,
    handshakes,
    lies,
    pages,
    redirects,
    robots,
    sitemaps,
    sizes,
    statuses,
    timing,
)
from crawl_platform.simulation.hostile.honest import HONEST
from crawl_platform.simulation.hostile.misbehaviour import Misbehaviour
from crawl_platform.simulation.hostile.visit import SUFFIX

ALL: tuple[Misbehaviour, ...] = (
    *timing.ROWS,
    *sizes.ROWS,
    *bombs.ROWS,
    *redirects.ROWS,
    *addresses.DNS,
    *addresses.SEEDS,
    *handshakes.TLS,
    *handshakes.DOORS,
    *lies.LIES,
    *lies.RESETS,
    *robots.ROWS,
    *sitemaps.ROWS,
    *pages.ROWS,
    *pages.SPACES,
    *statuses.ROWS,
)
NETWORK = "127.80.0.0/16"
"""Where the hosts are: the only network that a crawl of them has to be allowed."""


@dataclass(frozen=True, slots=True)
class HostileHost:
    """A host on the wire. `spare`: addresses that its name may move to."""

    name: str
    address: str
    row: Misbehaviour
    spare: tuple[str, ...] = ()

    @property
    def scheme(self) -> Literal["http", "https"]:
        return "https" if self.row.tls else "http"

    @property
    def bound(self) -> tuple[str, ...]:
        return (self.address, *self.spare)

    def seed(self, http: int, https: int) -> str:
        if self.row.seed:
            return self.row.seed.format(http=http)
        return f"{self.scheme}://{self.name}:{https if self.row.tls else http}/"


def hosts(names: Iterable[str] = ()) -> list[HostileHost]:
    """Hosts of the misbehaviours called `names` (all if none is named), and the honest one before them.

    A host's address does not depend on which others are there. Raises `KeyError` for a name that is none.
    """
    every = [HONEST, *ALL]
    places = {row.name: number for number, row in enumerate(every)}
    chosen = [places[name] for name in dict.fromkeys((HONEST.name, *names))] if names else range(len(every))
    return [_host(number, every[number]) for number in chosen]


def _host(number: int, row: Misbehaviour) -> HostileHost:
    net = f"127.80.{number}"
    spare = tuple(f"{net}.{last}" for last in (8, 9, 10)) if row.name == "dns-moving" else ()
    return HostileHost(row.name + SUFFIX, f"{net}.7", row, spare)
