"""In virtual time: a server that gets slower with load and answers 429 above its capacity."""

import pytest

from crawl_platform.settings import Politeness
from tests.admission.loaded_server import Crawler, LoadedServer

HOUR = 3_600.0
MOST_REFUSED = 0.02
LEAST_USED = 0.70


def used_and_refused(crawler: Crawler, seconds: float) -> tuple[float, float]:
    """(answers that were no 429 per second, share of 429) over the next `seconds`."""
    server, began = crawler.server, crawler.now
    asked, refused = server.asked, server.refused
    crawler.run(crawler.now + seconds)
    asked, refused = server.asked - asked, server.refused - refused
    return (asked - refused) / (crawler.now - began), refused / asked


@pytest.mark.parametrize(
    ("capacity", "delay", "service"),
    [
        (5.0, 0.05, 0.02),
        (2.0, 0.1, 0.05),
        (0.5, 1.0, 0.1),
        (0.2, 1.0, 0.2),
        (0.8, 1.0, 0.02),
        (5.0, 0.02, 0.01),
    ],
)
def test_a_host_is_used_near_its_capacity_and_hardly_ever_has_to_refuse(
    capacity: float, delay: float, service: float
) -> None:
    crawler = Crawler(Politeness(host_delay=delay), LoadedServer(lambda _: capacity, service))
    crawler.run(1_000 / capacity)

    rate, refused = used_and_refused(crawler, 4_000 / capacity)

    assert rate >= LEAST_USED * capacity
    assert refused < MOST_REFUSED


@pytest.mark.parametrize(("capacity", "delay", "service"), [(5.0, 0.05, 0.02), (0.2, 1.0, 0.2)])
def test_ablation_at_a_fixed_delay_the_host_refuses_often_and_is_used_less(
    capacity: float, delay: float, service: float
) -> None:
    def crawl(adaptive: bool) -> tuple[float, float]:
        server = LoadedServer(lambda _: capacity, service)
        crawler = Crawler(Politeness(host_delay=delay), server, adaptive=adaptive)
        crawler.run(1_000 / capacity)
        return used_and_refused(crawler, 4_000 / capacity)

    rate, refused = crawl(adaptive=True)
    fixed_rate, fixed_refused = crawl(adaptive=False)

    assert fixed_refused > MOST_REFUSED > refused
    assert fixed_rate < 0.8 * rate


def test_after_an_incident_the_host_is_used_as_before() -> None:
    """For ten minutes it can do a twentieth of what it could."""

    def capacity(now: float) -> float:
        return 0.1 if 2 * HOUR <= now < 2 * HOUR + 600 else 2.0

    crawler = Crawler(Politeness(host_delay=0.25), LoadedServer(capacity, 0.05))
    crawler.run(HOUR)
    before, _ = used_and_refused(crawler, HOUR - (crawler.now - HOUR))
    during = crawler.server.asked
    crawler.run(2 * HOUR + 600)
    during = crawler.server.asked - during

    crawler.run(2 * HOUR + 600 + 15 * 60)
    after, refused = used_and_refused(crawler, HOUR)

    assert during < 0.2 * before * 600  # it was left alone while it was unwell
    assert after >= 0.9 * before
    assert refused < MOST_REFUSED


def test_answers_that_become_slow_slow_us_down_before_anything_is_refused() -> None:
    """Its latency rises twentyfold for a while, and it never says 429."""
    server = LoadedServer(lambda _: 1_000.0, 0.05)
    crawler = Crawler(Politeness(host_delay=0.1), server)
    crawler.run(600)
    server.service = 1.0
    asked = server.asked

    crawler.run(crawler.now + 300)

    busy = (server.asked - asked) * 1.0 / 300  # share of the time for which the server worked for us
    assert server.refused == 0
    assert busy < 0.35
    server.service = 0.05
    crawler.run(crawler.now + 1_200)
    assert crawler.pace.delay == 0.0  # and back at its own delay
