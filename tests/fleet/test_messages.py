"""What the fleet is told: windows by shard, and what URLs are worth."""

from typing import Any

import msgspec
import pytest

from crawl_platform.fleet.client import merged
from crawl_platform.fleet.inbox import Arrival, Inbox
from crawl_platform.fleet.messages import (
    AdmitMany,
    Appraise,
    Discover,
    DiscoveredUrl,
    ScheduleWindow,
    Trim,
    Worth,
    decode_inbox,
    encode,
)
from crawl_platform.frontier.trim import TrimOrder, orders
from crawl_platform.testing.builders import FrontierRig
from crawl_platform.web.host import shard_of
from tests.frontier.scenes import A, B, known, url


def part(name: str, starts_at: float, **hosts: int) -> ScheduleWindow:
    groups = {f"{host}.test": {7: fetches} for host, fetches in hosts.items()}
    return ScheduleWindow(
        name, starts_at, starts_at + 60, 9, {f"{h}.test": n for h, n in hosts.items()}, groups
    )


def test_the_window_of_all_shards_is_that_of_its_parts() -> None:
    whole = merged([part("w1", 0.0, a=1), part("w1", 0.0), part("w1", 0.0, b=2)])

    assert whole == ScheduleWindow(
        "w1", 0.0, 60.0, 9, {"a.test": 1, "b.test": 2}, {"a.test": {7: 1}, "b.test": {7: 2}}
    )


def test_while_a_window_is_being_told_shards_that_have_not_got_it_are_left_out() -> None:
    whole = merged([part("w1", 0.0, a=1), part("w2", 60.0, b=2)])

    assert whole is not None
    assert (whole.window_id, whole.allocations) == ("w2", {"b.test": 2})
    assert merged([]) is None


def test_appraisals_come_out_canonical_and_without_what_is_no_url() -> None:
    sent = Appraise((Worth("HTTPS://A.test:443/x", 0.1, "why"), Worth("mailto:x", 0.1)))

    assert decode_inbox(encode(sent)) == Appraise((Worth("https://a.test/x", 0.1, "why"),))


@pytest.mark.parametrize("value", [-1.0, 1e12])
def test_a_worth_beyond_all_bounds_is_refused(value: float) -> None:
    with pytest.raises(msgspec.DecodeError):
        decode_inbox(encode(Appraise((Worth("https://a.test/", value),))))


@pytest.mark.parametrize("changes", [{"host": "no host"}, {"keep": -2}, {"deepest": -2}])
def test_an_order_to_cut_a_queue_that_makes_no_sense_is_refused(changes: dict[str, Any]) -> None:
    sent = msgspec.structs.replace(Trim(A, 5, 3, "r"), **changes)

    with pytest.raises(msgspec.DecodeError):
        decode_inbox(encode(sent))


def test_an_order_to_cut_a_queue_is_written_down_with_its_message() -> None:
    rig = FrontierRig(A)
    message = decode_inbox(encode(Trim(A, 5, 3, "r")))
    assert isinstance(message, Trim)

    arrive(rig, message)

    assert list(orders(rig.kv)) == [(0, A, TrimOrder(5, 3, "r"))]


def arrive(rig: FrontierRig, message: Discover | Appraise | Trim) -> None:
    inbox = Inbox(rig.kv, rig.frontier, "cell-1", "incarnation")
    rig.apply(lambda planner: inbox.apply(planner, [Arrival(0, 1, message, rig.clock.now())]))


def test_an_appraisal_that_arrives_is_the_urls_value() -> None:
    rig = FrontierRig(A)
    rig.discover(url("1"))

    for _ in range(2):
        arrive(rig, Appraise((Worth(url("1"), 0.05, "duplicate of x"), Worth(url("never-seen"), 1.0))))

    assert (known(rig, url("1")).value, known(rig, url("1")).worth) == (0.05, "duplicate of x")
    assert rig.frontier.known == 1


def test_a_url_of_which_no_value_is_said_is_worth_what_its_depth_says() -> None:
    rig = FrontierRig(A)

    arrive(
        rig,
        Discover(
            (DiscoveredUrl(url("root")), DiscoveredUrl(url("deep"), 3), DiscoveredUrl(url("x"), 3, 0.9))
        ),
    )

    assert [known(rig, url(path)).value for path in ("root", "deep", "x")] == [1.0, 0.25, 0.9]


def test_many_hosts_are_admitted_by_one_message_each_with_its_event_once() -> None:
    rig = FrontierRig(A, B)
    sent = AdmitMany(
        ((A, (DiscoveredUrl(url("1")),)), (B, (DiscoveredUrl(url("1", B)), DiscoveredUrl(url("2", B), 1))),
         ("no host", ()), (A, (DiscoveredUrl(url("2")),))),
        "a list", True,
    )  # fmt: skip
    message = decode_inbox(encode(sent))
    inbox = Inbox(rig.kv, rig.frontier, "cell-1", "incarnation")
    arrival = Arrival(0, 7, message, rig.clock.now())

    events = [(row["host"], row["event"], row["detail"]) for _, row in inbox.rows([arrival])]
    rig.apply(lambda planner: inbox.apply(planner, [arrival]))

    assert events == [(A, "seeded", "a list"), (B, "seeded", "a list")]
    assert [rig.frontier.hosts[host].record.trusted for host in (A, B)] == [True, True]
    assert [known(rig, url(path, host), host).depth for host in (A, B) for path in ("1", "2")] == [0, 0, 0, 1]
    assert inbox.stored() == {0: 7}


def test_many_hosts_of_which_one_is_of_another_shard_are_not_admitted() -> None:
    ours = next(host for n in range(99) if shard_of(host := f"h{n}.test", 2) == 0)
    stray = next(host for n in range(99) if shard_of(host := f"h{n}.test", 2) == 1)
    rig = FrontierRig(ours, stray, n_shards=2)
    inbox = Inbox(rig.kv, rig.frontier, "cell-1", "incarnation")

    sent = AdmitMany(((ours, ()), (stray, ())), "a list", True)

    assert inbox.arrival("inbox.0", 1, encode(sent), 0.0) is None
    assert inbox.ignored == 1
