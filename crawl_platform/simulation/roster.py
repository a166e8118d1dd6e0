"""Who lives in the synthetic web: one row per character."""

from dataclasses import dataclass, field
from typing import Any

from crawl_platform.simulation.host import Role
from crawl_platform.simulation.robots import Group, Robots
from crawl_platform.simulation.sites.blog import Blog
from crawl_platform.simulation.sites.calendar import Calendar
from crawl_platform.simulation.sites.directory import Directory
from crawl_platform.simulation.sites.farm import Farm
from crawl_platform.simulation.sites.forum import Forum
from crawl_platform.simulation.sites.hazard import Hazard
from crawl_platform.simulation.sites.manual import Manual
from crawl_platform.simulation.sites.mirror import Mirror
from crawl_platform.simulation.sites.moved import Moved, Winding
from crawl_platform.simulation.sites.news import News
from crawl_platform.simulation.sites.plain import Plain
from crawl_platform.simulation.sites.shop import Shop
from crawl_platform.simulation.sites.site import Site
from crawl_platform.simulation.sites.walled import Walled
from crawl_platform.simulation.sites.wiki import Wiki


@dataclass(frozen=True)
class Row:
    """`count` hosts of one kind and `pages` = (least, most) regular pages each, at scale 1.

    `traits` are fields of `Host`. `supporter`: may carry links to horizon hosts as an independent voice.
    `shared`: they live at one address. `least`: hosts that stay at any scale.
    """

    kind: str
    family: type[Site]
    role: Role
    count: int
    pages: tuple[int, int]
    traits: dict[str, Any] = field(default_factory=dict)
    supporter: bool = False
    shared: bool = False
    least: int = 1


def _rules(*disallow: str, allow: tuple[str, ...] = (), delay: float | None = None) -> Robots:
    return Robots((Group(("*",), disallow, allow, delay),))


_BAD_BOT = Group(("badbot", "scraperbot"), ("/",))
_RESTRICTED = Robots(
    (_BAD_BOT, Group(("*",), ("/links", "/*/3.html", "/*/4.html$"), ("/*/3.html$",), 2.0)),
)

TRUSTED: tuple[Row, ...] = (
    Row(
        "manual",
        Manual,
        "trusted",
        4,
        (60, 160),
        {"validators": "both", "encoding": "gzip", "relative": True},
        True,
        least=3,
    ),
    Row("news", News, "trusted", 3, (60, 150), {"validators": "etag", "encoding": "gzip"}, True, least=2),
    Row(
        "blog",
        Blog,
        "trusted",
        3,
        (40, 90),
        {"validators": "last-modified", "encoding": "gzip"},
        True,
        least=2,
    ),
    Row("forum", Forum, "trusted", 2, (80, 160), {"encoding": "br"}, True, least=2),
    Row("directory", Directory, "trusted", 2, (8, 14), {"validators": "both"}, True, least=2),
    Row(
        "plain",
        Plain,
        "trusted",
        3,
        (30, 60),
        {"validators": "etag", "charset": "windows-1252"},
        True,
        least=2,
    ),
    Row("tenant", Plain, "trusted", 3, (20, 40), {"validators": "last-modified"}, shared=True, least=2),
    Row(
        "wiki",
        Wiki,
        "trusted",
        1,
        (150, 300),
        {"validators": "both", "encoding": "gzip", "robots": _rules("/w/")},
        True,
    ),
    Row("shop", Shop, "trusted", 1, (80, 120), {"robots": _rules("/*?*sort=", "/*?*view=")}),
    Row("bazaar", Shop, "trusted", 1, (60, 100), {"validators": "noisy", "soft404": True}),
    Row("calendar", Calendar, "trusted", 1, (20, 40)),
    Row("session", Blog, "trusted", 1, (30, 50), {"sessions": True}),
    Row("mirror", Mirror, "trusted", 1, (60, 160), {"validators": "etag"}),
    Row("restricted", Plain, "trusted", 1, (40, 60), {"robots": _RESTRICTED}),
    Row("norobots", Plain, "trusted", 1, (20, 40), {"robots": Robots(status=404)}),
    Row("robots5xx", Plain, "trusted", 1, (20, 40), {"robots": Robots(status=503)}),
    Row(
        "robotsmoved",
        Plain,
        "trusted",
        1,
        (20, 40),
        {"robots": Robots((_BAD_BOT, Group()), moved="/robots-here.txt")},
    ),
    Row("slow", Blog, "trusted", 1, (20, 40), {"fault": "slow"}),
    Row("drip", Plain, "trusted", 1, (20, 30), {"fault": "drip"}),
    Row("flaky", Blog, "trusted", 1, (40, 60), {"fault": "flaky", "encoding": "gzip"}),
    Row("limited", Plain, "trusted", 1, (30, 50), {"fault": "limited"}),
    Row("outage", Plain, "trusted", 1, (30, 50), {"fault": "outage"}),
    Row("stuck", Plain, "trusted", 1, (20, 30), {"fault": "stuck"}),
    Row("hazard", Hazard, "trusted", 1, (20, 30)),
    Row("mute", Plain, "trusted", 1, (20, 20), {"fault": "mute"}),
    Row("dead", Plain, "trusted", 1, (20, 20), {"fault": "dead"}),
    Row("unresolvable", Plain, "trusted", 1, (20, 20), {"fault": "unresolvable"}),
    Row("servfail", Plain, "trusted", 1, (20, 20), {"fault": "servfail"}),
    Row("moved", Moved, "trusted", 1, (1, 1)),
    Row("winding", Winding, "trusted", 1, (20, 30)),
    Row("walled", Walled, "trusted", 1, (20, 40)),
)

HORIZON: tuple[Row, ...] = (
    Row("plain", Plain, "honest-horizon", 8, (20, 60), {"validators": "both", "encoding": "gzip"}, least=6),
    Row("manual", Manual, "honest-horizon", 4, (40, 90), {"validators": "etag", "relative": True}, least=4),
    Row(
        "blog",
        Blog,
        "honest-horizon",
        4,
        (30, 60),
        {"validators": "last-modified", "charset": "koi8-r"},
        least=4,
    ),
    Row("news", News, "honest-horizon", 2, (40, 60), {"charset": "shift_jis", "encoding": "gzip"}, least=2),
    Row("plain", Plain, "weak-horizon", 6, (20, 40), {"charset": "iso-8859-1"}, least=2),
    Row("plain", Plain, "remote-horizon", 6, (20, 40), {"validators": "etag"}, least=3),
    Row("gone", Plain, "gone-horizon", 1, (20, 20), {"fault": "unresolvable"}),
    Row("farm", Farm, "farm", 7, (60, 120), least=6),
    Row("farm", Farm, "farm", 3, (60, 120), shared=True, least=3),
)
"""Kinds here don't show in the names, which come from words."""
