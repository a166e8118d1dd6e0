"""What a site's robots.txt says about uses, asked before a page is fetched: nothing is taken that will not be wanted.

Only where the policy is to stop at a refusal (`Citizenship.on_refusal`). A "no" in robots.txt is not undone by any
page, so there is nothing to fetch it for; silence is, so it is no reason here.
"""

from msgspec.structs import replace

from crawl_platform.admission.preferences import treatment
from crawl_platform.admission.robots import RobotsCache
from crawl_platform.admission.rules import HostRules
from crawl_platform.web.preferences import combine, said_in_robots
from crawl_platform.web.url import origin_of


class Wishes:
    """The policy of `admission.service` about uses."""

    def __init__(self, robots: RobotsCache, rules: HostRules) -> None:
        self._robots = robots
        self._rules = rules

    def refuses(self, host: str, url: str, agent: str) -> bool:
        """Whether `url` is not fetched, going by what is said to `agent`."""
        citizenship = self._rules.of(host).citizenship
        if citizenship.on_refusal != "stop":
            return False
        robots = self._robots.rules_of(origin_of(url))
        if robots is None:
            return False
        said = combine(said_in_robots(robots, url, agent))
        return bool(treatment(said, replace(citizenship, silence="allow")).refused)
