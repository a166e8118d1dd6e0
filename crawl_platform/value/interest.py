"""What the topics file says of URLs that a cell finds: those on topic need not wait until an asset has looked at them.

The cell reads the file that is in force (`crawl topics FILE`) and looks now and then whether it has changed. A link is
worth as much more as its URL and its anchor say, by the weight that `page_values` uses. That is a place in the queue
and no more: what the page itself is worth is said by that asset, which knows all its links.
"""

import logging
from collections.abc import Callable
from pathlib import Path

from crawl_platform.errors import ConfigurationError
from crawl_platform.settings import Value
from crawl_platform.value.topics import Topics
from crawl_platform.value.topics_file import topics_of

log = logging.getLogger(__name__)

Factor = Callable[[str, str], float]
"""(URL, anchor) → what a link is worth beside one of which nothing is known."""


class Interest:
    """The topics of the crawl at `home`, as a cell knows them."""

    def __init__(self, home: Path, settings: Value) -> None:
        self._home = home
        self._settings = settings
        self._read: tuple[int, int] | None = None
        """Time and size of the file when it was last read."""
        self._topics = Topics(())

    def in_force(self) -> Factor | None:
        """What links are worth by the file as it is now; None without topics. One that is no good changes nothing."""
        try:
            found = (self._home / self._settings.topics).stat()
            now = found.st_mtime_ns, found.st_size
        except OSError:
            now = None
        if now != self._read:
            self._read = now
            try:
                self._topics = topics_of(self._home, self._settings) if now is not None else Topics(())
            except ConfigurationError as error:
                log.warning("topics stay as they were: %s", error)
        return self.factor if self._topics.entries else None

    def factor(self, url: str, anchor: str) -> float:
        """2^(weight · business signal): 8 for a link wholly about a topic of weight 1, 1 for one that says nothing."""
        topics = self._topics
        if not topics.may_say(url, anchor):
            return 1.0
        worth: float = 2.0 ** (self._settings.business * topics.business(topics.of_link(url, (anchor,))))
        return worth
