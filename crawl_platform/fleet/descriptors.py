"""Open files: how many a cell needs, and the limit that is raised before anything starts."""

import resource

from crawl_platform.errors import ConfigurationError
from crawl_platform.settings import Settings

ENOUGH_DESCRIPTORS = 1 << 20
"""Linux' own default ceiling (fs.nr_open): more is not asked for, whatever the hard limit says."""


def raise_descriptors(settings: Settings) -> None:
    """Raise the soft limit of open files as far as it goes, or say what to do if that is too little.

    The slots are what a cell can't do without; connections that are kept to hosts come on top.
    """
    needed = descriptors_needed(settings)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = ENOUGH_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, ENOUGH_DESCRIPTORS)
    if most < needed:
        raise ConfigurationError(
            f"{settings.fetch.slots} fetch slots need {needed} open files, the limit is {most}: "
            f"raise it (ulimit -n {needed}) or lower fetch.slots"
        )
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


def descriptors_needed(settings: Settings) -> int:
    """Open files that one cell needs at the very least: its slots twice over, and its stores."""
    return settings.fetch.slots * 2 + 512
