"""Conditional requests never hide a change."""

from hypothesis import given
from hypothesis import strategies as st

from crawl_platform.simulation.host import Validators
from crawl_platform.simulation.message import Request
from crawl_platform.simulation.web import SyntheticWeb

START = 1_800_000_000.0
WEB = SyntheticWeb(8, START, pace=50.0, scale=0.2)


def _status(url: str, path: str, t: float, **headers: str) -> tuple[int, dict[str, str]]:
    named = {k.lower().replace("_", "-"): v for k, v in headers.items()}
    site, _ = WEB.locate(url)
    assert site
    request = Request("GET", site.host.name, path, named, site.host.scheme == "https", 1)
    reply = WEB.reply(request, t)
    return reply.status, dict(reply.headers)


def _root(kind: Validators) -> str:
    return next(
        h.root for h in WEB.hosts.values() if h.validators == kind and not h.fault and h.kind != "moved"
    )


@given(st.sampled_from(["etag", "last-modified", "both"]), st.floats(0, 60), st.floats(0, 5))
def test_304_means_the_same_version(kind: Validators, first: float, more: float) -> None:
    root = _root(kind)
    t0, t1 = START + 1 + first, START + 1 + first + more
    _, headers = _status(root, "/", t0)
    known = {}
    if "ETag" in headers:
        known["If_None_Match"] = headers["ETag"]
    if "Last-Modified" in headers:
        known["If_Modified_Since"] = headers["Last-Modified"]

    status, _ = _status(root, "/", t1, **known)

    if status == 304:
        assert WEB.version(root, t0) == WEB.version(root, t1)
    elif known:
        assert status == 200
        assert WEB.version(root, t0) != WEB.version(root, t1) or "ETag" not in headers


def test_last_modified_is_withheld_in_the_second_of_the_change() -> None:
    root = _root("last-modified")
    change = WEB.changes(root, START, START + 600)[0]

    _, at_once = _status(root, "/", change)
    later = int(change) + 1.0

    assert "Last-Modified" not in at_once
    if not WEB.changes(root, change, later):
        assert "Last-Modified" in _status(root, "/", later)[1]
