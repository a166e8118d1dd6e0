"""A host's robots rules as the web itself states them: the text it serves and the verdict it means.

The verdict is worked out from the rules, not from the text, so it can judge a parser of the text.
"""

import re
from dataclasses import dataclass
from functools import cache


@cache
def _pattern(rule: str) -> re.Pattern[str]:
    body = "".join(".*" if c == "*" else re.escape(c) for c in rule.removesuffix("$"))
    return re.compile(body + ("$" if rule.endswith("$") else ""))


def _longest(rules: tuple[str, ...], path: str) -> int:
    return max((len(r) for r in rules if _pattern(r).match(path)), default=-1)


@dataclass(frozen=True, slots=True)
class Group:
    """One robots group: the product tokens it speaks to, its rules and its crawl-delay (seconds)."""

    agents: tuple[str, ...] = ("*",)
    disallow: tuple[str, ...] = ()
    allow: tuple[str, ...] = ()
    crawl_delay: float | None = None

    def allows(self, path: str) -> bool:
        """RFC 9309 §2.2.2: the longest matching rule decides, allow wins a tie."""
        return _longest(self.allow, path) >= _longest(self.disallow, path)

    def lines(self) -> list[str]:
        lines = [f"User-agent: {a}" for a in self.agents]
        lines += [f"Allow: {r}" for r in self.allow]
        lines += [f"Disallow: {r}" for r in self.disallow or ("",)]
        if self.crawl_delay is not None:
            lines.append(f"Crawl-delay: {self.crawl_delay:g}")
        return lines


@dataclass(frozen=True, slots=True)
class Robots:
    """What /robots.txt answers: `groups` with status 200, or an error `status`; `moved` redirects once."""

    groups: tuple[Group, ...] = (Group(),)
    status: int = 200
    moved: str = ""
    sitemap: bool = True

    def group(self, agent: str) -> Group:
        """The group for a user agent string: the named one if its token is in the string, else `*`."""
        lowered = agent.lower()
        named = [g for g in self.groups if any(a != "*" and a.lower() in lowered for a in g.agents)]
        stars = [g for g in self.groups if "*" in g.agents]
        return (named or stars or [Group()])[0]

    def allows(self, path: str, agent: str = "*") -> bool:
        """Verdict for a path with query. 4xx allows all, 5xx forbids all (RFC 9309 §2.3.1)."""
        if path == "/robots.txt":
            return True
        if self.status >= 500:
            return False
        return self.status >= 400 or self.group(agent).allows(path)

    def text(self, sitemap_url: str) -> str:
        blocks = ["\n".join(g.lines()) for g in self.groups]
        if self.sitemap:
            blocks.append(f"Sitemap: {sitemap_url}")
        return "# robots\n" + "\n\n".join(blocks) + "\n"
