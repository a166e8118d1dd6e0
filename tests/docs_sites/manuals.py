"""HTML manuals that Debian ships, as hosts: real sites of which the pages and links are known.

The right answers lie in ../shared/cases/docs_sites; they were counted from the files, not by a crawler:
`a` and `area` links to the same tree, a directory means its index.html.
"""

import csv
import gzip
import os
import subprocess
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from tests.fleet.harness import Fleet

ROOT = Path(__file__).parents[2]
CASES = ROOT.parent / "shared" / "cases" / "docs_sites"
INSTALL = Path(__file__).with_name("install.sh")
BODY_CAP = 10_000_000
"""The largest page of these manuals has 7 MB; at the default cap its links would be cut off."""

Edge = tuple[str, str]


@dataclass(frozen=True)
class Manual:
    """`reachable`: number of pages that can be reached from `start`, as the cases' own statistics say."""

    package: str
    host: str
    folder: Path
    start: str
    reachable: int

    @property
    def option(self) -> str:
        """The argument of `crawl_platform.simulation files`."""
        return f"{self.host}={self.folder}"

    def seed(self, port: int) -> str:
        path = "" if self.start == "index.html" else self.start
        return f"http://{self.host}:{port}/{path}"

    @cached_property
    def edges(self) -> frozenset[Edge]:
        """Every edge between pages that can be reached from the start."""
        with gzip.open(CASES / f"{self.package}.shared.edges.tsv.gz", "rt") as file:
            edges = {(row[0], row[1]) for row in csv.reader(file, delimiter="\t")}
        reached = _reachable(self.start, edges)
        return frozenset(edge for edge in edges if edge[0] in reached)

    @cached_property
    def pages(self) -> frozenset[str]:
        return frozenset(_reachable(self.start, self.edges))

    def require(self) -> None:
        """Install the manual, or its newest version, if that is possible; skip the test loudly if it or its cases
        are missing, or if it is another version than the one whose pages were counted."""
        if not CASES.is_dir():
            pytest.skip(f"SKIPPED FOR WANT OF CASES: {CASES} is not there")
        if self.missing() and os.geteuid() == 0:
            subprocess.run([INSTALL, "--newest", self.package], check=False, timeout=240)
        if missing := self.missing():
            pytest.skip(
                f"SKIPPED FOR WANT OF A MANUAL: {len(missing)} of {len(self.pages)} pages are not there, like "
                f"{missing[0]}. As root, run tests/docs_sites/install.sh --newest {self.package}"
            )

    def missing(self) -> list[str]:
        """Pages that were counted and are not on this machine."""
        return sorted(page for page in self.pages if not (self.folder / page).exists())


_DOC = Path("/usr/share/doc")
PYTHON = Manual("python3.11-doc", "python.test", _DOC / "python3.11/html", "index.html", 526)
POSTGRESQL = Manual(
    "postgresql-doc-15", "postgresql.test", _DOC / "postgresql-doc-15/html", "index.html", 1169
)
APACHE = Manual("apache2-doc", "apache.test", _DOC / "apache2-doc/manual", "en/index.html", 2656)
DJANGO = Manual("python-django-doc", "django.test", _DOC / "python-django-doc/html", "index.html", 691)


def _reachable(start: str, edges: frozenset[Edge] | set[Edge]) -> set[str]:
    targets: dict[str, list[str]] = {}
    for source, target in edges:
        targets.setdefault(source, []).append(target)
    reached, todo = {start}, [start]
    while todo:
        new = set(targets.get(todo.pop(), ())) - reached
        reached |= new
        todo += new
    return reached


def page_of(url: str) -> str:
    """A URL as a page of its manual: a directory means index.html."""
    path = unquote(urlsplit(url).path).lstrip("/")
    return path + "index.html" if path == "" or path.endswith("/") else path


def pages_reached(fleet: Fleet, manual: Manual) -> set[str]:
    """HTML pages of the manual that were fetched well."""
    rows = fleet.rows(
        "SELECT url FROM fetches WHERE host = $1 AND kind = 'page' AND outcome = 'ok' "
        "AND content_type LIKE 'text/html%'",
        manual.host,
    )
    return {page_of(row["url"]) for row in rows}


def edges_shown(fleet: Fleet, manual: Manual) -> set[Edge]:
    """Links between HTML pages of the manual, as the lake now shows them; through a redirect to its target."""
    rows = fleet.rows(
        "SELECT DISTINCT l.src_url, coalesce(r.redirect_to, l.dst_url) AS dst_url FROM links_now l "
        "LEFT JOIN fetches r ON r.url = l.dst_url AND r.outcome = 'redirect' "
        "WHERE l.src_host = $1 AND l.dst_host = $1 AND coalesce(r.redirect_to, l.dst_url) IN "
        "(SELECT url FROM fetches WHERE outcome = 'ok' AND content_type LIKE 'text/html%')",
        manual.host,
    )
    return {(page_of(row["src_url"]), page_of(row["dst_url"])) for row in rows}


def assert_crawled_to_the_end(fleet: Fleet, manual: Manual) -> None:
    """The pages and the edges of the lake are those of the manual: none missing, none made up."""
    assert len(manual.pages) == manual.reachable
    pages, edges = pages_reached(fleet, manual), edges_shown(fleet, manual)
    assert sorted(manual.pages - pages) == [], "pages missing"
    assert sorted(pages - manual.pages) == [], "pages made up"
    assert sorted(manual.edges - edges) == [], "edges missing"
    assert sorted(edges - manual.edges) == [], "edges made up"
