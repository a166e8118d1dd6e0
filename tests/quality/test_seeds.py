"""Seed hosts of no use and hosts that the seed lacks, each told by what was fetched."""

from typing import Any

import pytest

from crawl_platform.quality.seeds import Finding, audit, suggest
from tests.quality.conftest import Small

DAY = 86_400.0
TEXT = "This page says something about its subject at a length that makes it worth reading."

EDGE = {"links": 3, "pages": 3, "nofollow": 0, "main": 3, "editorial": 3}


@pytest.fixture
def small() -> Small:
    """A crawl with one host that is well."""
    small = Small()
    seed(small, "well.test")
    for n in range(5):
        page(small, f"https://well.test/{n}", text_hash=f"w{n}")
    return small


def seed(small: Small, host: str, **values: Any) -> None:
    small.add("hosts", 10 * DAY, host=host, **{"trusted": True, **values})


def page(small: Small, url: str, text_hash: str | None, text: str = TEXT, **values: Any) -> None:
    name = small.page(url, 2 * DAY, text_hash, status=200)
    small.rows["pages"][-1] |= {"text": text, "kind": "html", **values}
    small.add(
        "page_values",
        url=url,
        host=url.split("/")[2],
        fetch_id=name,
        words=len(text.split()),
        soft_error=False,
    )


def problems(small: Small) -> dict[str, Finding]:
    with small.connect() as connection:
        return {finding.host: finding for finding in audit(connection)}


def suggestions(small: Small) -> list[Finding]:
    with small.connect() as connection:
        return suggest(connection)


def test_a_host_that_is_well_is_not_named(small: Small) -> None:
    assert problems(small) == {}


def test_a_host_that_never_answered_is_silent_once_it_was_asked_often_enough(small: Small) -> None:
    seed(small, "dead.test")
    seed(small, "new.test")
    for ago in (4 * DAY, 2 * DAY, DAY):
        small.fetch("https://dead.test/", ago, outcome="no_such_host")
    small.fetch("https://new.test/", DAY, outcome="no_such_host")

    found = problems(small)

    assert set(found) == {"dead.test"}
    assert found["dead.test"].reason == "silent"
    assert found["dead.test"].evidence == "3 attempts over 3.0 days, no answer; the last: no_such_host"


@pytest.mark.parametrize(
    ("status", "words"), [("rules", "was read and no page"), ("disallow_all", "can't be had")]
)
def test_a_host_of_which_only_robots_txt_was_read_is_forbidden(small: Small, status: str, words: str) -> None:
    seed(small, "closed.test")
    small.add("hosts", 9 * DAY, host="closed.test", event="robots", robots_status=status, trusted=True)
    small.fetch("https://closed.test/robots.txt", 9 * DAY, kind="robots", status=200)

    assert problems(small)["closed.test"].reason == "forbidden"
    assert words in problems(small)["closed.test"].evidence


def test_a_host_whose_pages_lead_elsewhere_has_moved(small: Small) -> None:
    seed(small, "old.test")
    for n in range(4):
        small.fetch(
            f"https://old.test/{n}", DAY, outcome="redirect", status=301, redirect_to=f"https://new.test/{n}"
        )
    page(small, "https://old.test/last", "l")

    moved = problems(small)["old.test"]

    assert (moved.reason, moved.others, moved.strength) == ("moved", ["new.test"], 4)
    assert moved.advice == "`crawl seed new.test`, and `crawl seed remove old.test`"


def test_a_host_of_which_no_page_could_be_read_fails(small: Small) -> None:
    seed(small, "broken.test")
    for ago in (3, 2, 1):
        small.fetch("https://broken.test/", ago * DAY, outcome="server_error", status=500)

    assert problems(small)["broken.test"].reason == "failing"


def test_parked_and_missing_pages_are_told_by_what_they_say(small: Small) -> None:
    for host in ("parked.test", "gone.test", "about-domains.test"):
        seed(small, host)
    page(small, "https://parked.test/", "p", "The domain parked.test is for sale. Buy this domain now.")
    page(small, "https://about-domains.test/", "a", "What to do when a domain is for sale. " + TEXT * 40)
    for n in range(4):
        page(small, f"https://gone.test/{n}", f"g{n}")
        small.rows["page_values"][-1]["soft_error"] = True

    assert {host: finding.reason for host, finding in problems(small).items()} == {
        "parked.test": "parked", "gone.test": "soft_errors",
    }  # fmt: skip


def test_a_host_that_says_what_another_says_is_a_mirror(small: Small) -> None:
    seed(small, "mirror.test")
    for n in range(4):
        page(small, f"https://mirror.test/{n}", f"w{n}")
        small.add(
            "near_duplicates", cluster_id=f"c{n}", url=f"https://mirror.test/{n}", host="mirror.test", fetch_id="f",
            representative=f"https://well.test/{n}", is_representative=False, kind="exact", similarity=1.0, words=20,
            size=2,
        )  # fmt: skip

    mirror = problems(small)["mirror.test"]

    assert (mirror.reason, mirror.others) == ("mirrored", ["well.test"])
    assert mirror.evidence == "pages that say what pages of other hosts say: 4 of 4, most of well.test"


def test_a_host_without_any_text_is_named_and_one_that_forbids_keeping_it_is_not(small: Small) -> None:
    for host in ("script.test", "private.test"):
        seed(small, host)
        for n in range(3):
            page(small, f"https://{host}/{n}", None, "", kept="facts" if host == "private.test" else "all")

    assert {host: finding.reason for host, finding in problems(small).items()} == {"script.test": "no_text"}


def test_hosts_that_seed_hosts_point_to_are_suggested_and_barred_ones_are_not(small: Small) -> None:
    seed(small, "also.test")
    small.fetch(
        "https://well.test/out", DAY, outcome="redirect", status=301, redirect_to="https://target.test/x"
    )
    small.fetch(
        "https://well.test/bad", DAY, outcome="redirect", status=301, redirect_to="https://a.barred.test/x"
    )
    page(small, "https://also.test/", "c", canonical="https://home.test/")
    for source in ("well.test", "also.test"):
        small.add(
            "host_graph",
            src_host=source,
            dst_host="liked.test",
            links=3,
            pages=1,
            nofollow=0,
            main=3,
            editorial=3,
        )
    small.add(
        "host_graph",
        src_host="well.test",
        dst_host="once.test",
        links=9,
        pages=9,
        nofollow=0,
        main=9,
        editorial=9,
    )
    small.add("requests", request_id="1", kind="exclude", target="*.barred.test")
    small.add("requests", request_id="2", kind="remove", target="liked.test", reason="too loud")
    small.add(
        "decisions", decision_id="d", decided_at=small.rows["fetches"][0]["started_at"], kind="promotion",
        subject="liked.test", verdict="held", reason="too little trust", input_versions=[], decided_by="promotions",
    )  # fmt: skip

    found = suggestions(small)

    assert [(finding.host, finding.reason) for finding in found] == [
        ("home.test", "canonical"), ("target.test", "redirect"), ("liked.test", "linked"),
    ]  # fmt: skip
    assert found[1].evidence == "redirects of 1 page of 1 seed host lead there (well.test)"
    assert found[2].evidence == (
        "2 trusted seed hosts link to it (also.test, well.test); held at the last decision: too little trust; "
        "vetoed by ada: too loud"
    )
    assert found[2].advice == "`crawl seed liked.test`, which lifts the veto"


def test_the_twin_of_a_seed_host_is_suggested_and_a_seed_host_never(small: Small) -> None:
    seed(small, "other.test")
    for n, target in enumerate(("www.well.test", "other.test")):
        name = small.page(f"https://well.test/t{n}", DAY, f"t{n}", link_set=f"f{small._fetches + 1}")
        small.add(
            "links", fetch_id=name, src_url=f"https://well.test/t{n}", src_host="well.test",
            dst_url=f"https://{target}/", dst_host=target, position="main",
        )  # fmt: skip

    (twin,) = suggestions(small)

    assert (twin.host, twin.reason, twin.others) == ("www.well.test", "twin", ["well.test"])
