import tarfile
from collections import Counter
from importlib import import_module

import pytest

from crawl_platform.digest import digest
from crawl_platform.digest.blocks import Blocks
from crawl_platform.digest.fingerprint import mask
from tests.web.cases import shared_cases, shared_path

URL = "http://s.example/page"
BASE = "<title>News</title><main><p>The council of Frobton decided that the old bridge will be rebuilt{}.</p></main>"


def of(html: str) -> str:
    return digest(html.encode(), URL, "text/html; charset=utf-8").fingerprint


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (" on May 26, 2026", " on Nov 11, 2026"),
        (" on 26 May 2026", " on 11 November 2026"),
        (" on Tuesday, 26 May 2026 10:15", " on Wednesday, 11 November 2026 11:20 pm"),
        (" 2026-05-26T10:15:00Z", " 2026-11-11T08:00:59+02:00"),
        (" 3 hours ago", " 2 days ago"),
        (" 1,204 views", " 1,377 views"),
        (" in version 3.11.2", " in version 3.11.9"),
        (" in Frob 3.11.2", " in Frob 3.11.9"),
        (" © 2025", " © 2026"),
        (" 9f86d081884c7d659a2f", " 60303ae22b998861bce3"),
        ("<!-- built by host 7 -->", "<!-- built by host 8 -->"),
        ("<script>nonce='a'</script>", "<script>nonce='b'</script>"),
        ("<b class=x data-id=1></b>", "<i class=y data-id=2></i>"),
        ("<div class=ads>buy one</div>", "<div class=ads>buy two</div>"),
        ("<nav>one two</nav>", "<nav>one three</nav>"),
        ("\n\n", "   "),
    ],
)
def test_noise_is_no_change(one: str, other: str) -> None:
    assert of(BASE.format(one)) == of(BASE.format(other))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("", " soon"),
        (" for 40 people", " for 41 people"),
        (" at $12.99", " at $13.99"),
        (" at 4.5 percent", " at 4.6 percent"),
        (" in May", " in June"),
        ("<ul><li>one</ul>", "<ul><li>one<li>two</ul>"),
        ("<img alt=x>", "<p>x</p>"),
        (
            "第1章中文中文中文中文中文中文中文中文中文中文中文中文中文中文中文中文",
            "第1章中文中文中文中文中文中文中文中文中文中文中文中文中文中文中文文中",
        ),
    ],
)
def test_content_is_a_change(one: str, other: str) -> None:
    assert of(BASE.format(one)) != of(BASE.format(other))


def test_a_page_that_is_all_navigation_is_its_navigation() -> None:
    assert of("<nav>one</nav>") != of("<nav>two</nav>")


def test_the_version_that_a_page_documents_is_masked_everywhere() -> None:
    page = (
        "<nav>Frob {0} Documentation</nav><main><p>Run frob ({0}) as the section before this says.</p></main>"
    )

    assert of(page.format("15.18")) == of(page.format("15.20"))


def test_masks_stop_at_words() -> None:
    assert mask("maybe 12 people march on 7 roads") == "maybe 12 people march on 7 roads"


@pytest.mark.long
def test_public_manuals_at_two_versions() -> None:
    """Floors are what was reached when this was written: 1,772 of 1,776 and 82 of 85."""
    counts = _verdicts(every=1)

    assert counts["unchanged", "same"] >= 1_772
    assert counts["changed", "changed"] >= 82


def test_a_tenth_of_the_public_manuals_at_two_versions() -> None:
    counts = _verdicts(every=10)

    assert counts["unchanged", "changed"] <= 1
    assert counts["changed", "same"] <= 1
    assert counts.total() > 180


def test_without_masks_a_date_is_a_change(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(import_module("crawl_platform.digest.fingerprint"), "mask", lambda text: text)

    assert of(BASE.format(" on May 26, 2026")) != of(BASE.format(" on Nov 11, 2026"))


@pytest.mark.long
def test_without_masks_and_regions_public_noise_is_change(monkeypatch: pytest.MonkeyPatch) -> None:
    module = import_module("crawl_platform.digest.fingerprint")
    monkeypatch.setattr(module, "mask", lambda text: text)
    everything = lambda blocks: " ".join(blocks.texts(slice(None))).encode()  # noqa: E731
    monkeypatch.setattr(Blocks, "visible", everything)

    assert _verdicts(every=10)["unchanged", "changed"] > 50


def _verdicts(every: int) -> Counter[tuple[str, str]]:
    """How many pages of a label are the same or changed, for every n-th page."""
    rows = shared_cases("change/site_snapshots/labels.shared.jsonl")[::every]
    counts: Counter[tuple[str, str]] = Counter()
    for site in sorted({row["site"] for row in rows}):
        labels = {row["page"]: row["label"] for row in rows if row["site"] == site}
        old, new = (_fingerprints(site, which, labels) for which in ("old", "new"))
        for page, label in labels.items():
            expected = "changed" if label in ("real", "added") else "unchanged"
            counts[expected, "same" if old.get(page) == new.get(page) else "changed"] += 1
    return counts


def _fingerprints(site: str, which: str, pages: dict[str, str]) -> dict[str, str]:
    found = {}
    with tarfile.open(shared_path(f"change/site_snapshots/{site}.shared.{which}.tar.xz")) as archive:
        for member in archive:
            name = member.name.removeprefix("./")
            file = archive.extractfile(member) if name in pages else None
            if file is not None:
                found[name] = digest(file.read(), URL, "text/html").fingerprint
    return found
