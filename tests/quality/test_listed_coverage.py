from tests.quality.conftest import NOW


def test_listed_coverage_counts_pages_of_the_seed_that_a_sitemap_or_feed_lists(small):
    small.add("hosts", 60, host="a.test")
    listed = {"second_group_id": 7, "kind": "page"}
    for name, state, last, facts in (
        ("read", "fetched", NOW, listed),
        ("waits", "queued", None, listed),
        ("gone before it was read", "gone", None, listed),
        ("linked only", "queued", None, {"kind": "page"}),
        ("a sitemap in an index", "queued", None, {"second_group_id": 7, "kind": "sitemap"}),
    ):
        small.add(
            "frontier",
            host="a.test",
            url=f"https://a.test/{name}",
            state=state,
            last_success_at=last,
            **facts,
        )
    small.add("frontier", host="b.test", url="https://b.test/", state="queued", **listed)

    measure = small.measure()["listed_coverage"]

    assert (measure.numerator, measure.denominator) == (1, 2)
