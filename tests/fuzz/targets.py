"""What is fuzzed: for each room its inputs, what is done with one, and what must hold whatever it is.

`run` raises for a broken promise and for whatever the code lets escape; `SiteError` is the one exception that
may leave a room (as an outcome).
"""

import base64
import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

from crawl_platform.admission import payment
from crawl_platform.admission.payment import asked_of
from crawl_platform.admission.politeness import retry_after
from crawl_platform.digest import digest
from crawl_platform.digest.charset import declared
from crawl_platform.errors import SiteError
from crawl_platform.fetch.inflate import inflate
from crawl_platform.fetch.redirect import location, redirect_to
from crawl_platform.fetch.safety import AddressGuard
from crawl_platform.frontier import parameter_order, series
from crawl_platform.scheduling import templates
from crawl_platform.settings import HostSettings, Urls
from crawl_platform.web import parameters, preferences, signals, sitemap, tagstream
from crawl_platform.web import robots as robots_txt
from crawl_platform.web.host import registrable_domain, shard_of
from crawl_platform.web.url import Base, canonicalize, explain, host_of, origin_of, port_of, resolve
from tests.fuzz import grammars
from tests.web.cases import SHARED

BASE = "https://a.example/dir/page.html?q=1"
NOW = 1_700_000_000.0
CAP = 250_000
MOST_CASES = 400
"""Shared cases per target that are mutated; the first ones by name."""


@dataclass(frozen=True)
class Target:
    name: str
    make: grammars.Make
    run: Callable[[bytes], object]
    corpus: Callable[[], list[bytes]]
    modules: tuple[str, ...]
    """Patterns of files under `crawl_platform/` whose lines are counted."""
    share: float
    """Of all inputs of a long run."""
    size: Callable[[bytes], int] = len
    """Bytes of work that an input stands for: what a compressed one inflates to."""


def text_of(data: bytes) -> str:
    return data.decode("utf-8", "surrogatepass" if _is_surrogate(data) else "replace")


def _is_surrogate(data: bytes) -> bool:
    try:
        data.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return False
    return True


def run_url(data: bytes) -> None:
    text = text_of(data)
    for base in (None, BASE):
        resolved = resolve(text, base)
        assert base is None or Base(BASE).resolve(text) == resolved
        assert resolved is None or resolve(resolved) == resolved
    explain(text)
    canonical = canonicalize(text)
    if canonical is None:
        assert host_of(text) == "" or resolve(text) is not None
        return
    assert canonical.isascii()
    assert canonicalize(canonical) == canonical
    assert explain(canonical) == []
    host = host_of(canonical)
    assert host
    assert origin_of(canonical).startswith(("http://", "https://"))
    registrable_domain(host)
    shard_of(host, 64)
    port_of(canonical)
    _in_the_frontier(canonical)


def _in_the_frontier(canonical: str) -> None:
    series.trapped(canonical, HostSettings(), {})
    settings = Urls(drop_parameters=("b*",), keep_parameters=("a", "*s*", "t*"))
    form = parameters.host_form(canonical, settings, sort=True)
    assert parameters.host_form(form, settings, sort=True) == form
    assert canonicalize(form) == form
    parameter_order.OrderEvidence().visited(canonical, "x", 0.0).redirected(canonical, form)
    shapes, template = templates.learn(canonical, {})
    assert templates.template_of(canonical, shapes) == template


def run_robots(data: bytes) -> None:
    rules = robots_txt.parse(data)
    for agent in ("tester", "*", ""):
        for url in (BASE, "/", "/a%2Fb?s=1"):
            rules.allows(url, agent)
            rules.preferences(url, agent)
        delay = rules.crawl_delay(agent)
        assert delay is None or delay >= 0
    assert rules.allows("/robots.txt", "tester")
    assert all(isinstance(name, str) for name in rules.sitemaps)


def run_html(data: bytes) -> None:
    for content_type in ("text/html", None):
        facts = digest(data, BASE, content_type)
        for link in facts.links:
            assert link.url.startswith(("http://", "https://"))
            assert link.url.isascii()
        facts.title.encode()
        facts.text.encode()


def run_sitemap(data: bytes) -> None:
    found = sitemap.parse(data, BASE, most=5_000)
    for entry in (*found.entries, *found.index):
        assert entry.loc.startswith(("http://", "https://"))
    assert len(found.entries) + len(found.index) <= 5_000


def _inflated_size(data: bytes) -> int:
    return sum(map(len, tagstream.inflated(data, sitemap.LAYERS, sitemap.MAX_BYTES)))


def run_headers(data: bytes) -> None:
    name, _, value = data.decode("utf-8", "surrogateescape").partition(": ")
    seconds = retry_after(value, NOW)
    assert seconds is None or seconds >= 0
    signals.x_robots_tag(value, "tester")
    signals.link_header(value, BASE)
    signals.refresh(value)
    list(signals.srcset(value))
    preferences.content_usage(value)
    preferences.tdm_reservation(value)
    preferences.tdm_file_says(preferences.parse_tdmrep(value.encode("utf-8", "replace")), "/x?y")
    preferences.robots_directives(signals.robots_directives(value))
    asked_of({name: value, payment.PRICE: value})
    asked_of({payment.X402: value})
    declared(value)
    location(value)
    with suppress(SiteError):
        redirect_to(value, BASE, AddressGuard(()))


def run_encoded(data: bytes) -> None:
    named = grammars.ENCODINGS[data[0] % len(grammars.ENCODINGS)] if data else ""
    for complete in (True, False):
        with suppress(SiteError):
            assert len(inflate(data[1:], named, CAP, complete=complete).body) <= CAP


# Corpora


def _rows(name: str) -> list[dict[str, Any]]:
    path = SHARED / name
    lines = path.read_text("utf-8").splitlines() if path.exists() else []
    rows = [json.loads(line) for line in lines if line.strip()]
    return rows[:: max(len(rows) // MOST_CASES, 1)]


def _urls() -> list[bytes]:
    return [str(row["input"]).encode("utf-8", "surrogatepass") for row in _rows("urls/urls.shared.jsonl")]


def _snippets() -> list[bytes]:
    return [base64.b64decode(row["html_b64"]) for row in _rows("links/snippets.shared.jsonl")]


def _files(folder: str, *patterns: str) -> list[bytes]:
    root = SHARED / folder
    paths = sorted(path for pattern in patterns for path in root.glob(pattern) if path.is_file())
    return [path.read_bytes()[:30_000] for path in paths[:MOST_CASES]]


def corpus_of(target: Target) -> list[bytes]:
    """Shared cases and found inputs to mutate; made-up ones where there are none."""
    known = target.corpus() + [path.read_bytes() for path in found_files(target.name)]
    made = Random(target.name)
    return known or [target.make(made) for _ in range(50)]


FOUND = Path(__file__).parent / "found"


def found_files(target: str) -> list[Path]:
    """Inputs that once broke something in this target."""
    return sorted(FOUND.glob(f"{target}-*"))


TARGETS = (
    Target(
        name="url",
        make=grammars.url,
        run=run_url,
        corpus=_urls,
        modules=("web/url.py", "web/traps.py", "web/parameters.py", "scheduling/templates.py"),
        share=0.50,
    ),
    Target(
        name="robots",
        make=grammars.robots,
        run=run_robots,
        corpus=partial(_files, "robots", "realworld.shared/*", "malformed/*"),
        modules=("web/robots.py", "web/path_rules.py"),
        share=0.10,
    ),
    Target(
        name="html",
        make=grammars.html,
        run=run_html,
        corpus=_snippets,
        modules=("digest/*.py",),
        share=0.06,
    ),
    Target(
        name="sitemap",
        make=grammars.sitemap,
        run=run_sitemap,
        corpus=partial(_files, "sitemaps", "files.shared/*"),
        modules=("web/sitemap.py", "web/feed.py", "web/items.py", "web/tagstream.py"),
        share=0.08,
        size=_inflated_size,
    ),
    Target(
        name="headers",
        make=grammars.headers,
        run=run_headers,
        corpus=list,
        modules=("web/signals.py", "web/preferences.py", "admission/payment.py", "fetch/redirect.py"),
        share=0.20,
    ),
    Target(
        name="encoded",
        make=grammars.encoded,
        run=run_encoded,
        corpus=list,
        modules=("fetch/inflate.py",),
        share=0.05,
    ),
)
"""Answers on the wire are the seventh target: `tests.fuzz.wire`, which needs a loop and a socket."""
BY_NAME = {target.name: target for target in TARGETS}
