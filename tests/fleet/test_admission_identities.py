"""A pool of identities in a real cell: who asked stands in each row, dead proxies cost no page, bans are no detour."""

from collections import Counter
from pathlib import Path

from crawl_platform.settings import Identity, IdentityHealth, NamedIdentity, Politeness
from tests.fleet.worker_cell import Answer, Request, gaps, plain, virtual_cell

HOSTS = {f"h{n}.test": f"192.0.2.{n}" for n in range(24)}
DEAD, ALIVE = "http://192.0.2.250:3128", "http://192.0.2.251:3128"
POOL = (
    NamedIdentity("direct"),
    NamedIdentity("dead", agent="other-bot", proxy=DEAD),
    NamedIdentity("alive", agent="third-bot", contact="third@example.org", proxy=ALIVE),
)
SECTIONS = {
    "identity": Identity("bot", "me@example.org"),
    "identities": POOL,
    "identity_health": IdentityHealth(explore_share=0.0, quarantine=60.0),
    "politeness": Politeness(host_delay=1.0),
}


class Proxies:
    """`dead` fails until it is mended."""

    def __init__(self) -> None:
        self.mended = False
        self.tries = 0

    def __call__(self, request: Request) -> Answer:
        if request.proxy == DEAD and not self.mended:
            self.tries += 1
            return Answer(None, proxy_failed=True)
        return plain(request)


async def test_every_row_says_who_asked_and_why_and_with_which_likelihood(tmp_path: Path) -> None:
    async with virtual_cell(tmp_path, HOSTS, pages=4, **SECTIONS) as cell:
        requests = await cell.run(8)
        rows = cell.rows("fetches")

    assert len(rows) >= 100
    assert {(row["admission_reason"], row["admission_propensity"]) for row in rows} == {("sticky", 1.0)}
    by_host = {host: {row["identity"] for row in rows if row["host"] == host} for host in HOSTS}
    assert all(len(names) == 1 for names in by_host.values())  # sticky
    assert set().union(*by_host.values()) == {"direct", "dead", "alive"}
    agents = {"direct": "bot/0.1 (+me@example.org)", "dead": "other-bot/0.1 (+me@example.org)",
              "alive": "third-bot/0.1 (+third@example.org)"}  # fmt: skip
    for request in requests:
        (name,) = by_host[request.host]
        assert request.headers["User-Agent"] == agents[name]
        assert request.proxy == {"direct": "", "dead": DEAD, "alive": ALIVE}[name]


async def test_a_dead_proxy_costs_no_page_and_its_hosts_are_asked_otherwise(tmp_path: Path) -> None:
    proxies = Proxies()
    async with virtual_cell(tmp_path, HOSTS, proxies, pages=3, **SECTIONS) as cell:
        await cell.run(30)
        rows = cell.rows("fetches")
        counts = Counter(row["identity"] for row in rows)
        slowed = [host for host, state in cell.frontier.hosts.items() if state.record.pace.delay]

    assert counts["dead"] == 0
    assert {row["outcome"] for row in rows if row["kind"] == "page"} == {"ok"}
    assert len([row for row in rows if row["kind"] == "page"]) == 3 * len(HOSTS)
    assert "moved" in {row["admission_reason"] for row in rows}
    assert slowed == []  # no host is to blame
    assert proxies.tries < 15


async def test_a_mended_proxy_is_found_by_a_probe(tmp_path: Path) -> None:
    proxies = Proxies()
    health = IdentityHealth(explore_share=0.0, quarantine=3.0)
    few = dict(list(HOSTS.items())[:16])
    async with virtual_cell(
        tmp_path, few, proxies, pages=26, **{**SECTIONS, "identity_health": health}
    ) as cell:
        await cell.run(10)
        proxies.mended = True
        await cell.run(14)
        reasons = Counter(row["admission_reason"] for row in cell.rows("fetches", identity="dead"))

    assert reasons["probe"] == 1
    assert reasons["sticky"] > 5


async def test_a_proxy_multiplies_no_rate(tmp_path: Path) -> None:
    shared = {f"h{n}.test": "192.0.2.77" for n in range(12)}
    async with virtual_cell(tmp_path, shared, pages=5, **SECTIONS) as cell:
        requests = await cell.run(60)

    assert {r.proxy for r in requests} == {"", DEAD, ALIVE}
    assert min(gap for found in gaps(requests, "address").values() for gap in found) >= 1.0 - 1e-6
    assert min(gap for found in gaps(requests, "host").values() for gap in found) >= 1.0 - 1e-6


async def test_requests_through_one_proxy_keep_its_distance(tmp_path: Path) -> None:
    pool = (NamedIdentity("out", proxy=ALIVE, proxy_delay=0.4),)
    async with virtual_cell(tmp_path, HOSTS, pages=5, **{**SECTIONS, "identities": pool}) as cell:
        requests = await cell.run(20)

    assert len(requests) >= 37  # of 40 that the proxy's clock allows
    assert min(gaps(requests, "proxy")[ALIVE]) >= 0.4 - 1e-6


async def test_a_refusal_outlives_a_kill_and_the_draws_of_all_days(tmp_path: Path) -> None:
    """Most hosts are given to somebody else each day: only what is written down keeps the others away."""
    banned = True

    def script(request: Request) -> Answer:
        refuses = banned and request.host == "h3.test" and "robots" not in request.url
        return Answer(403) if refuses else plain(request)

    few = {host: HOSTS[host] for host in ("h3.test", "h4.test")}
    health = IdentityHealth(explore_share=0.9, least_hosts=1e9)
    async with virtual_cell(
        tmp_path, few, script, pages=24, **{**SECTIONS, "identity_health": health}
    ) as cell:
        await cell.run(4)
        first = {request.headers["User-Agent"] for request in cell.wire.requests if request.host == "h3.test"}
        names: dict[str, set[str]] = {host: set() for host in few}
        for _ in range(4):
            cell.clock.advance(86_400.0)
            await cell.kill()
            cell.made._contact_at = cell.clock.boottime()
            for request in await cell.run(4):
                if "robots" not in request.url:
                    names[request.host].add(request.headers["User-Agent"])
        assert cell.frontier.hosts["h3.test"].record.refused
        banned = False
        await cell.run(5)

        assert cell.frontier.hosts["h3.test"].record.refused == ""
    assert names["h3.test"] == first
    assert len(first) == 1
    assert len(names["h4.test"]) > 1, "the draw does give hosts to others"


async def test_a_dead_proxy_of_the_only_identity_is_left_alone_and_found_when_it_is_back(
    tmp_path: Path,
) -> None:
    proxies = Proxies()
    pool = (NamedIdentity("dead", proxy=DEAD),)
    async with virtual_cell(tmp_path, HOSTS, proxies, pages=3, **{**SECTIONS, "identities": pool}) as cell:
        resolved = 0
        resolve = cell.wire.address

        async def counted(host: str) -> str:
            nonlocal resolved
            resolved += 1
            return await resolve(host)

        cell.wire.address = counted  # type: ignore[method-assign]
        await cell.run(58)
        assert proxies.tries == 5
        assert resolved <= 2 * len(HOSTS), "hosts wait for the probe, and are not claimed meanwhile"
        proxies.mended = True
        await cell.run(60)
        rows = cell.rows("fetches", kind="page")

    assert len(rows) == 3 * len(HOSTS)
    assert {row["outcome"] for row in rows} == {"ok"}


async def test_a_host_has_the_delay_that_is_asked_of_any_of_our_names(tmp_path: Path) -> None:
    robots = b"User-agent: third-bot\nCrawl-delay: 4\n\nUser-agent: *\nAllow: /\n"

    def script(request: Request) -> Answer:
        return Answer(200, body=robots) if request.url.endswith("/robots.txt") else plain(request)

    async with virtual_cell(tmp_path, HOSTS, script, pages=5, **SECTIONS) as cell:
        requests = await cell.run(30)

    assert len(requests) >= 5 * len(HOSTS)
    assert min(gap for found in gaps(requests).values() for gap in found) >= 4.0 - 1e-6


async def test_a_page_is_read_as_said_to_the_name_that_asked(tmp_path: Path) -> None:
    page = b"<html><head><meta name=third-bot content=noindex></head><body><p>text</p></body></html>"

    def script(request: Request) -> Answer:
        if request.url.endswith("/robots.txt"):
            return plain(request)
        return Answer(200, headers={"content-type": "text/html"}, body=page)

    async with virtual_cell(tmp_path, HOSTS, script, pages=1, **SECTIONS) as cell:
        await cell.run(10)
        asked = {row["host"]: row["identity"] for row in cell.rows("fetches", kind="page")}
        barred = {row["host"] for row in cell.rows("pages") if row["noindex"]}

    assert barred == {host for host, identity in asked.items() if identity == "alive"}
    assert 0 < len(barred) < len(HOSTS)


async def test_a_host_that_bans_us_is_asked_by_nobody_else(tmp_path: Path) -> None:
    def script(request: Request) -> Answer:
        return Answer(403) if request.host == "h3.test" and "robots" not in request.url else plain(request)

    few = dict(list(HOSTS.items())[:6])
    async with virtual_cell(tmp_path, few, script, pages=8, **SECTIONS) as cell:
        await cell.run(12)
        rows = cell.rows("fetches", host="h3.test", kind="page")

    assert len(rows) == 8
    assert len({row["identity"] for row in rows}) == 1
    assert {row["admission_reason"] for row in rows[1:]} == {"refused"}
