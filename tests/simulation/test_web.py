"""The synthetic web as an object: same seed, same web; and what it says about itself is what it shows."""

import hashlib
import subprocess
import sys
from collections import Counter, deque
from urllib.parse import urljoin, urlsplit

import pytest
from selectolax.lexbor import LexborHTMLParser

from crawl_platform.simulation.answer import without_session
from crawl_platform.simulation.host import Host
from crawl_platform.simulation.web import SyntheticWeb
from crawl_platform.web.url import canonicalize

START = 1_800_000_000.0
SEEDS = [1, 77, 20_301]

_DIGEST = """
import hashlib
from crawl_platform.simulation.web import SyntheticWeb
web = SyntheticWeb(5, 1_800_000_000.0, scale=0.2, http_port=8080, https_port=8443)
h = hashlib.sha256(repr(sorted(web.hosts.items())).encode())
for host in web.hosts:
    for url in web.urls(host)[:12]:
        h.update(repr((web.page(url, 1_800_000_300.0), web.body(url, 1_800_000_300.0, 4))).encode())
print(h.hexdigest())
"""


@pytest.fixture(scope="module")
def web() -> SyntheticWeb:
    return SyntheticWeb(5, START, scale=0.2, http_port=8080, https_port=8443)


def _pages(web: SyntheticWeb, per_host: int = 8) -> list[str]:
    urls = [u for host in web.hosts for u in web.urls(host)[:per_host]]
    return [u for u in urls if not (page := web.page(u)) or not page.redirect]


def _host(web: SyntheticWeb, kind: str) -> Host:
    return next(h for h in web.hosts.values() if h.kind == kind)


@pytest.mark.long
def test_the_same_seed_gives_the_same_web_in_another_process() -> None:
    digests = {
        subprocess.run(
            [sys.executable, "-c", _DIGEST], env={"PYTHONHASHSEED": salt}, capture_output=True, check=True
        ).stdout
        for salt in ("1", "2")
    }

    assert len(digests) == 1
    assert len(digests.pop()) == 65


def test_another_seed_gives_another_web() -> None:
    one, other = (SyntheticWeb(s, START, scale=0.2) for s in (1, 2))

    assert one.host_links() != other.host_links()
    assert one.body(one.seeds()[0], START, 1) != other.body(other.seeds()[0], START, 1)


def test_ports_change_urls_and_nothing_else(web: SyntheticWeb) -> None:
    bare = SyntheticWeb(5, START, scale=0.2)

    for url in _pages(web, 3):
        page, same = web.page(url), bare.page(url)
        assert page
        assert same
        assert page.text == same.text
        assert [urlsplit(x.url).path for x in page.links] == [urlsplit(x.url).path for x in same.links]


@pytest.mark.parametrize("seed", SEEDS)
def test_the_default_web_has_its_characters(seed: int) -> None:
    web = SyntheticWeb(seed, START)
    roles = Counter(h.role for h in web.hosts.values())

    assert 60 <= len(web.hosts) <= 90
    assert 0.25 < roles["trusted"] / len(web.hosts) < 0.55
    assert roles["honest-horizon"] >= 15
    assert roles["farm"] >= 8
    assert {h.scheme for h in web.hosts.values()} == {"http", "https"}
    assert 2_000 < sum(len(web.urls(h)) for h in web.hosts) < 9_000
    addresses = Counter(h.address for h in web.hosts.values() if h.address)
    assert max(addresses.values()) >= 3
    assert all(a.startswith("127.") for a in addresses)


@pytest.mark.parametrize("scale", [0.2, 1.0])
@pytest.mark.parametrize("seed", SEEDS)
def test_honest_horizon_hosts_have_two_independent_supporters_within_two_clicks(
    seed: int, scale: float
) -> None:
    web = SyntheticWeb(seed, START, scale=scale)

    supporters: dict[str, set[str]] = {}
    for root in web.seeds():
        for target in _linked_within_one_click(web, root):
            supporters.setdefault(target, set()).add(web.hosts[urlsplit(root).hostname or ""].address)

    for host in web.hosts.values():
        if host.role == "honest-horizon":
            assert len(supporters.get(host.name, ())) >= 2, host.name


def _linked_within_one_click(web: SyntheticWeb, root: str) -> set[str]:
    """Other hosts linked from the root or a page that it links to: following one is the second click."""
    host = web.hosts[urlsplit(root).hostname or ""]
    if not host.reachable or host.fault or host.kind == "mirror" or host.robots.status >= 500:
        return set()
    first = [link.url for link in web.links(root, START)] if web.page(root) else []
    own = [u for u in first if urlsplit(u).hostname == host.name and web.page(u) and web.allowed(u)]
    shown = first + [link.url for u in own for link in web.links(u, START) if link.position != "comments"]
    return {urlsplit(u).hostname or "" for u in shown} - {host.name}


@pytest.mark.parametrize("seed", SEEDS)
def test_remote_hosts_are_known_to_honest_horizon_hosts_only(seed: int) -> None:
    web = SyntheticWeb(seed, START)
    sources = {n: {s for s, targets in web.host_links().items() if n in targets} for n in web.hosts}

    for host in web.hosts.values():
        roles = {web.hosts[s].role for s in sources[host.name]}
        if host.role == "remote-horizon":
            assert len(sources[host.name]) >= 2
            assert roles <= {"honest-horizon", "weak-horizon"}
        if host.role == "weak-horizon":
            assert (
                sum(
                    web.hosts[s].role == "trusted" and web.hosts[s].kind != "mirror"
                    for s in sources[host.name]
                )
                == 1
            )


@pytest.mark.parametrize("seed", SEEDS)
def test_honest_hosts_never_link_to_a_farm_but_in_comments(seed: int) -> None:
    web = SyntheticWeb(seed, START, scale=0.3)
    hijacked = 0

    for url in (u for h in web.hosts.values() if not h.spam for u in web.urls(h.name)):
        for link in web.links(url, START):
            target = web.hosts[urlsplit(link.url).hostname or ""]
            if target.spam:
                assert link.position == "comments"
                hijacked += 1

    assert hijacked > 0


@pytest.mark.parametrize("seed", SEEDS)
def test_farms_crowd_into_one_network_and_honest_hosts_do_not(seed: int) -> None:
    web = SyntheticWeb(seed, START)
    networks: dict[str, list[Host]] = {}
    for host in web.hosts.values():
        if host.address:
            networks.setdefault(host.address.rpartition(".")[0], []).append(host)

    for hosts in networks.values():
        assert len({h.address for h in hosts}) == 1 or all(h.spam for h in hosts)
    assert sum(any(h.spam for h in hosts) for hosts in networks.values()) == 1


def test_the_farm_links_to_itself_far_more_than_anybody_links_to_it(web: SyntheticWeb) -> None:
    graph = web.host_links()
    farm = {h.name for h in web.hosts.values() if h.spam}

    assert all(graph[name] == farm - {name} for name in farm)
    assert sum(len(graph[n] & farm) for n in graph if n not in farm) < len(farm) * 3


def test_the_host_graph_is_what_the_pages_show(web: SyntheticWeb) -> None:
    shown: dict[str, set[str]] = {name: set() for name in web.hosts}
    for name in web.hosts:
        for url in web.urls(name):
            shown[name] |= {urlsplit(link.url).hostname or "" for link in web.links(url, START)} - {name}

    for name, targets in web.host_links().items():
        host = web.hosts[name]
        assert shown[name] <= targets, name
        if host.kind not in ("forum", "blog", "news", "mirror", "slow", "flaky", "session"):
            assert shown[name] == targets, name


@pytest.mark.long
def test_markup_shows_exactly_the_links_that_the_truth_names(web: SyntheticWeb) -> None:
    for url in _pages(web):
        host = web.hosts[urlsplit(url).hostname or ""]
        tree = LexborHTMLParser(web.body(url, START, 1).decode(host.charset))

        seen = Counter()
        for anchor in tree.css("a[href]"):
            target = urljoin(url, anchor.attributes["href"])
            if host.sessions and target.startswith(host.root):
                path, session = without_session(target)
                assert session
                target = path
            seen[(target, anchor.text(), anchor.attributes.get("rel") or "")] += 1

        assert seen == Counter((x.url, x.anchor, x.rel) for x in web.links(url, START)), url


def test_links_stand_where_the_truth_says(web: SyntheticWeb) -> None:
    places = {
        "nav": "nav a",
        "main": "main a",
        "aside": "aside a",
        "comments": ".comments a",
        "footer": "footer a",
    }
    for url in _pages(web, 6):
        host = web.hosts[urlsplit(url).hostname or ""]
        tree = LexborHTMLParser(web.body(url, START, 1).decode(host.charset))

        for position, selector in places.items():
            shown = sum(x.position == position for x in web.links(url, START))
            assert len(tree.css(selector)) == shown, (url, position)


def test_all_regular_pages_of_a_host_can_be_reached_from_its_root() -> None:
    web = SyntheticWeb(9, START, scale=0.2)
    for host in web.hosts.values():
        if host.kind in ("wiki", "moved", "walled"):
            continue
        regular = set(web.urls(host.name))
        reached, queue = {host.root}, deque([host.root])
        while queue:
            for link in web.links(queue.popleft(), START):
                page = (
                    web.page(link.url) if link.url not in reached and link.url.startswith(host.root) else None
                )
                if page and not page.trap and not page.redirect:
                    reached.add(link.url)
                    queue.append(link.url)
        assert regular <= reached, (host.name, sorted(regular - reached)[:3])


def test_pages_are_of_realistic_size() -> None:
    web = SyntheticWeb(3, START, scale=0.2)
    sizes = sorted(len(web.body(u, START, 1)) for u in _pages(web, 60)[::4])

    assert sizes[0] > 2_000
    assert 6_000 < sizes[len(sizes) // 2] < 20_000
    assert sizes[-1] < 60_000


def test_traps_never_end() -> None:
    web = SyntheticWeb(4, START, scale=0.2)
    for kind, first in (("calendar", "/calendar/2020/01"), ("bazaar", "/category/1?color=red")):
        seen, url = set(), _host(web, kind).url(first)
        for _ in range(40):
            page = web.page(url)
            assert page
            assert page.trap
            seen.add(url)
            ahead = (x.url for x in reversed(page.links) if x.url not in seen)
            url = next(u for u in ahead if (p := web.page(u)) and p.trap)

    wiki = _host(web, "wiki")
    page = web.page(wiki.root)
    far = [x.url for x in page.links] if page else []
    beyond = {x.url for u in far for x in web.links(u, START)} - set(web.urls(wiki.name))
    assert len(beyond) > 100


@pytest.mark.parametrize("seed", SEEDS)
def test_changes_follow_the_stated_rate(seed: int) -> None:
    web = SyntheticWeb(seed, START, scale=0.2)
    span = 2_000.0
    urls = [u for u in _pages(web, 25) if web.rate(u) > 0]

    expected = sum(web.rate(u) for u in urls) * span
    # Streams are shared by the pages that list them, so only pages with their own processes are independent.
    got = sum(len(web.changes(u, START, START + span)) for u in urls)

    assert expected > 500
    assert abs(got / expected - 1) < 0.25


def test_pace_scales_all_rates() -> None:
    slow, fast = (SyntheticWeb(1, START, pace=p, scale=0.2) for p in (1.0, 10.0))

    for url in _pages(slow, 5):
        assert fast.rate(url) == pytest.approx(10 * slow.rate(url))


def test_front_pages_change_within_seconds_and_reference_pages_hardly_ever(web: SyntheticWeb) -> None:
    news, manual = _host(web, "news"), _host(web, "manual")

    assert 2 < 1 / web.rate(news.root) < 40
    assert 1 / web.rate(manual.url("/genindex.html")) > 3_000


def test_every_change_changes_the_text_and_nothing_else_does(web: SyntheticWeb) -> None:
    for url in _pages(web, 5):
        changes = web.changes(url, START, START + 3_000)[:3]
        before = web.page(url, START)
        assert before
        for t in changes:
            just_before, after = web.page(url, t - 1e-4), web.page(url, t)
            assert just_before
            assert after
            if just_before.version + 1 == after.version:
                assert just_before.text != after.text, url
        quiet = web.page(url, changes[0] - 1e-4 if changes else START + 3_000)
        assert quiet
        assert (quiet.text, quiet.links, quiet.version) == (before.text, before.links, before.version)


def test_news_appear_over_time(web: SyntheticWeb) -> None:
    news = _host(web, "news")
    later = START + 300

    fresh = set(web.urls(news.name, later)) - set(web.urls(news.name, START))

    assert len(fresh) > 3
    assert all(web.page(u, START) is None for u in fresh)
    assert fresh & {x.url for x in web.links(news.root, later)}


def _without_noise(html: str) -> str:
    tree = LexborHTMLParser(html)
    for node in tree.css(".ad, .generated, time, script, style, meta, input"):
        node.decompose()
    return "|".join(
        (
            tree.body.text(separator=" ") if tree.body else "",
            *(a.attributes["href"] or "" for a in tree.css("a")),
        )
    )


def test_noise_differs_on_every_response_and_never_touches_the_meaning(web: SyntheticWeb) -> None:
    for url in _pages(web, 6):
        host = web.hosts[urlsplit(url).hostname or ""]
        bodies = [web.body(url, START, serial, session="5e55").decode(host.charset) for serial in (1, 2, 3)]

        assert len(set(bodies)) == 3
        assert len({_without_noise(b) for b in bodies}) == 1


def test_noise_is_what_hides_sameness(web: SyntheticWeb) -> None:
    """Ablation of the test above: without removing noise, two responses differ."""
    url = web.seeds()[0]

    assert hashlib.md5(web.body(url, START, 1)).digest() != hashlib.md5(web.body(url, START, 2)).digest()


def test_session_ids_differ_per_response_and_vanish_in_canonical_form(web: SyntheticWeb) -> None:
    host = _host(web, "session")
    shown = [
        {
            urljoin(host.root, a.attributes["href"] or "")
            for a in LexborHTMLParser(web.body(host.root, START, n)).css("a")
        }
        for n in (1, 2)
    ]

    assert not shown[0] & {u for u in shown[1] if u.startswith(host.root)}
    assert {canonicalize(u) for u in shown[0]} == {x.url for x in web.links(host.root, START)}
    assert web.page(next(u for u in shown[0] if u.startswith(host.root)))


def test_mirrors_say_the_same_and_keep_their_links_at_home(web: SyntheticWeb) -> None:
    mirror = _host(web, "mirror")
    original = web.hosts["manual-1.test"]

    assert len(web.urls(mirror.name)) > 20
    for url in web.urls(mirror.name):
        twin = url.replace(mirror.origin, original.origin)
        for t in (START, START + 2_000):
            page, same = web.page(url, t), web.page(twin, t)
            assert page
            assert same
            assert (page.text, page.version) == (same.text, same.version)
        assert any({url, twin} <= cluster for cluster in web.duplicates())
    home = web.links(mirror.root, START)
    assert not any("//manual-1.test" in x.url for x in home)


def test_duplicate_clusters_do_not_overlap(web: SyntheticWeb) -> None:
    members = [u for cluster in web.duplicates() for u in cluster]

    assert len(members) == len(set(members))
    assert all(web.page(u) for u in members)


def test_groups_gather_pages_that_behave_alike(web: SyntheticWeb) -> None:
    news = _host(web, "news")
    stories = [u for u in web.urls(news.name) if "/story/" in u]

    assert {web.group(u) for u in stories} == {f"{news.name}/story/*"}
    assert web.group(news.root) == f"{news.name}/"
    mean = sum(web.rate(u) for u in stories) / len(stories)
    assert 0.5 < mean * 600 < 1.6


def test_what_does_not_exist_is_said_so(web: SyntheticWeb) -> None:
    assert web.page("http://nowhere.test/") is None
    assert web.page(web.seeds()[0] + "no/such/page") is None
    with pytest.raises(KeyError):
        web.rate(web.seeds()[0] + "no/such/page")
