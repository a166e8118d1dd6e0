"""Open files: the limit that the supervisor raises before it starts anything."""

import resource
from collections.abc import Iterator

import pytest

from crawl_platform.errors import ConfigurationError
from crawl_platform.fleet.descriptors import ENOUGH_DESCRIPTORS, raise_descriptors
from crawl_platform.settings import Fetch, Settings


@pytest.fixture
def limits() -> Iterator[tuple[int, int]]:
    """(soft, hard) as they are; put back afterwards."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    yield before
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_the_limit_goes_up_as_far_as_it_may_since_kept_connections_outnumber_the_slots(
    limits: tuple[int, int],
) -> None:
    _, hard = limits
    resource.setrlimit(resource.RLIMIT_NOFILE, (900, hard))

    raise_descriptors(Settings(home="", fetch=Fetch(slots=128)))

    most = ENOUGH_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, ENOUGH_DESCRIPTORS)
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == (most, hard)


def test_slots_that_the_hard_limit_has_no_room_for_are_refused(limits: tuple[int, int]) -> None:
    with pytest.raises(ConfigurationError, match=r"lower fetch\.slots"):
        raise_descriptors(Settings(home="", fetch=Fetch(slots=ENOUGH_DESCRIPTORS)))

    assert resource.getrlimit(resource.RLIMIT_NOFILE) == limits
