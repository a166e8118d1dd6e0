"""The asset `seed_audit`: what is wrong with the seed, and what it lacks, as a table."""


def test_useless_and_missing_seed_hosts_are_written_down_and_too_many_are_a_warning(
    harness, crawl, lake, clock
):
    for host in ("well.test", "moved.test"):
        crawl.host(host)
    crawl.visit("https://well.test/")
    crawl.fetch(
        "https://moved.test/", outcome="redirect", status=301, redirect_to="https://new.test/", link_set=None
    )
    crawl.commit()

    result = harness.execute("seed_audit")

    rows = lake.query("SELECT host, kind, reason, others FROM seed_audit ORDER BY kind").to_pylist()
    assert rows == [
        {"host": "moved.test", "kind": "problem", "reason": "moved", "others": ["new.test"]},
        {"host": "new.test", "kind": "suggestion", "reason": "redirect", "others": ["moved.test"]},
    ]
    (check,) = result.get_asset_check_evaluations()
    assert (check.passed, check.blocking, check.metadata["with_a_problem"].value) == (False, False, 1)
    (event,) = result.asset_materializations_for_node("seed_audit")
    assert (
        "| moved.test | moved | pages that redirect to other hosts: 1 of 1"
        in event.metadata["problems"].value
    )
