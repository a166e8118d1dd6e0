"""Pages that hurt whoever parses them or follows their links."""

import random
from functools import partial

from crawl_platform.simulation.hostile.misbehaviour import Act, Misbehaviour
from crawl_platform.simulation.hostile.visit import DECOYS, Visit, page

_row = partial(Misbehaviour, "pages", outcomes=("ok",))
_space = partial(Misbehaviour, "spaces", outcomes=("ok",), most=90)


def _document(body: bytes) -> Act:
    async def act(visit: Visit) -> None:
        await visit.answer(b"<!doctype html><title>a page</title>" + body)

    return act


def _once(body: bytes) -> Act:
    """`body` at the root; what it links to is honest."""
    document = _document(body)

    async def act(visit: Visit) -> None:
        if visit.path == "/":
            await document(visit)
        else:
            await visit.answer(page("a page"))

    return act


def _listing(*urls: str) -> Act:
    """A page that links to `urls`; {http} is the port."""

    async def act(visit: Visit) -> None:
        links = "".join(
            f'<a href="{url}">{url}</a><img src="{url}"><iframe src="{url}"></iframe>' for url in urls
        )
        await visit.answer(page("links", links.format(http=visit.http)))

    return act


async def _base(visit: Visit) -> None:
    base = f'<base href="http://{DECOYS[0]}:{visit.http}/">'
    await visit.answer(page("base", '<a href="admin">admin</a><a href="/x">x</a>', base))


async def _refresh(visit: Visit) -> None:
    target = visit.url(f"/turn/{visit.count('turns')}")
    await visit.answer(page("on and on", head=f'<meta http-equiv="refresh" content="0;url={target}">'))


async def _refresh_itself(visit: Visit) -> None:
    await visit.answer(page("again", head='<meta http-equiv="refresh" content="0">'))


async def _canonical(visit: Visit) -> None:
    """Each page says that it is another one."""
    target = visit.url(f"/true/{visit.count('truths')}")
    await visit.answer(page("not me", head=f'<link rel="canonical" href="{target}">'))


async def _calendar(visit: Visit) -> None:
    month = int(visit.path.rpartition("=")[2] or 24_000) if "=" in visit.path else 24_000
    links = "".join(f'<a href="/calendar?month={month + step}">{step}</a>' for step in (-1, 1, 12))
    await visit.answer(page("calendar", links))


async def _sessions(visit: Visit) -> None:
    """Every visit gets its own links to the same five pages."""
    session = f"{random.Random(visit.count('sessions')).getrandbits(128):032x}"
    links = "".join(f'<a href="/page/{n}?visit={session}">{n}</a>' for n in range(5))
    await visit.answer(page("shop", links))


async def _parameters(visit: Visit) -> None:
    number = visit.count("pages")
    links = "".join(f'<a href="/list?colour={number}&size={n}&sort={n * n}">{n}</a>' for n in range(30))
    await visit.answer(page("filters", links))


async def _descent(visit: Visit) -> None:
    """A relative link that leads one deeper, each time."""
    await visit.answer(page("deeper", '<a href="deeper/">deeper</a><a href="down/">down</a>'))


async def _numbers(visit: Visit) -> None:
    """What no filter can know as a trap: a million plain pages with a hundred new links each."""
    links = "".join(f'<a href="/page-{visit.count("numbers")}">more</a>' for _ in range(100))
    await visit.answer(page("plain", links))


async def _spam(visit: Visit) -> None:
    """Thousands of made-up pages of other hosts of the seed."""
    links = "".join(f'<a href="{visit.url(f"/spam/{n}", "honest")}">buy</a>' for n in range(3_000))
    await visit.answer(page("spam", links))


_TALL = b'<a title="' + b"x" * 100_000 + b'" href="/a">' + b"word " * 20_000 + b"</a>"
_UNHOLDABLE = "".join(f'<a href="{href}">x</a>' for href in (
    "http://[::1", "http://a b.test/", "http://" + "a" * 300 + ".test/", "//", "///", "http://x:99999/", "\x01\x02",
    "/%", "/%zz", "/\ud7ff", "http://xn--a/", "?" * 3_000, "data:text/html," + "x" * 30_000, "http://user:pw@h.test/",
    "http://1.2.3.4.5/", "http://0x7f.1/", "mailto:x", "/a\u202e/b", "HtTp:\\\\x\\y",
))  # fmt: skip

ROWS = (
    _row("page-nested", "100,000 elements within each other", act=_document(b"<div>" * 100_000)),
    _row("page-tables", "30,000 tables within each other", act=_document(b"<table><tr><td>" * 30_000)),
    _row(
        "page-formatting",
        "40,000 open formatting elements",
        act=_document(b"<b><i><font>" * 40_000 + b"<p>x"),
    ),
    _row(
        "page-links",
        "as many links as fit",
        most=90,
        act=_once(b"".join(b"<a href=/%d>%d</a>" % (n, n) for n in range(100_000))),
    ),
    _row(
        "page-attributes",
        "100,000 attributes",
        act=_document(b"<p " + b"".join(b"a%d " % n for n in range(100_000)) + b">"),
    ),
    _row("page-entities", "60,000 entities", act=_document(b"&NotEqualTilde;&#x1F600;" * 60_000)),
    _row("page-title", "a title of 200 kB", act=_document(b"<title>" + b"word " * 40_000 + b"</title>")),
    _row("page-anchor", "an anchor of 100 kB", act=_once(_TALL)),
    _row("page-nul", "NUL bytes everywhere", act=_once(b"<a\0 href='/\0a\0'>\0</a>" + b"\0" * 50_000)),
    _row(
        "page-unclosed",
        "a comment and a script that never end",
        act=_document(b"<script><!--" + b"<a href=/x>" * 9_000),
    ),
    _row("page-urls", "links that are no URLs", act=_once(_UNHOLDABLE.encode())),
    _row(
        "page-private",
        "links to private addresses and names",
        act=_listing(
            "http://169.254.169.254/latest/meta-data/",
            f"http://{DECOYS[0]}:{{http}}/admin",
            "http://localhost:{http}/",
            "http://[::1]:{http}/",
            "http://10.0.0.1/",
            "http://dns-inward.hostile.test:{http}/",
            f"http://{DECOYS[1]}:{{http}}/",
            "ftp://127.0.0.1/",
            "http://2136014850:{http}/",
        ),
    ),
    _row("page-base", "a base on a private host", act=_base),
    _row("page-refresh", "refreshes to a new page, each time", act=_refresh, most=90),
    _row("page-refresh-itself", "refreshes to itself", act=_refresh_itself),
    _row("page-canonical", "each page says that it is another", act=_canonical, most=90),
    _row("page-spam", "3,000 made-up pages of an honest host", act=_spam),
)

SPACES = (
    _space("space-calendar", "a calendar without end", act=_calendar),
    _space("space-sessions", "new session ids at every visit", act=_sessions),
    _space("space-parameters", "parameters that multiply", act=_parameters),
    _space("space-descent", "relative links that lead ever deeper", act=_descent),
    _space("space-numbers", "plain pages without end", act=_numbers),
)
