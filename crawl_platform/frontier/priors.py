"""What is believed of a page's change rate before it has a history: the prior of its group, host, or of all."""

from collections.abc import Mapping
from dataclasses import dataclass

from crawl_platform.scheduling.change_rate import Gamma

Pair = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Told:
    """The last word about the hosts of one shard: Gamma priors as (shape, rate parameter in days)."""

    default: Pair
    hosts: Mapping[str, Pair]
    groups: Mapping[str, Mapping[int, Pair]]


class Priors:
    """`unknown` is believed where a shard has been told nothing."""

    def __init__(self, unknown: Gamma) -> None:
        self._unknown = unknown
        self._told: dict[int, Told] = {}
        self.version = 0
        """Grows with each word."""

    def tell(
        self,
        shard: int,
        default: Pair,
        hosts: Mapping[str, Pair],
        groups: Mapping[str, Mapping[int, Pair]],
    ) -> None:
        """Priors of a shard, in place of those before. What is no Gamma distribution counts as not told."""
        self._told[shard] = Told(default, hosts, groups)
        self.version += 1

    def of(self, shard: int, host: str, group: int) -> Gamma:
        """The prior of a page: of its group, else of its host, else of all pages."""
        told = self._told.get(shard)
        if told is None:
            return self._unknown
        by_group = told.groups.get(host)
        for pair in (by_group.get(group) if by_group else None, told.hosts.get(host), told.default):
            if pair is not None and pair[0] > 0 and pair[1] > 0:
                return Gamma(*pair)
        return self._unknown
