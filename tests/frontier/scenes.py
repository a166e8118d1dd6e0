"""What the tests of claims share: URLs, lanes and leases moved by hand."""

from crawl_platform.frontier.lease import Lease
from crawl_platform.frontier.records import UrlRecord
from crawl_platform.testing.builders import FrontierRig

A, B = "a.test", "b.test"


def url(path: str, host: str = A) -> str:
    return f"https://{host}/{path}"


def move(rig: FrontierRig, target: str, lane: int, due_in: float = 0.0) -> None:
    def step(planner: object) -> None:
        record = planner._over.load(A, target)  # type: ignore[attr-defined]
        planner._over.unqueue(A, target, record)  # type: ignore[attr-defined]
        planner._over.enqueue(A, target, record, lane, int((rig.clock.now() + due_in) * 1000))  # type: ignore[attr-defined]
        planner._over.store(A, target, record)  # type: ignore[attr-defined]

    rig.apply(step)


def hand_back(rig: FrontierRig, lease: Lease) -> None:
    rig.gates.release_host(lease.host)
    rig.frontier.hand_back(lease)
    rig.frontier.hosts[lease.host].in_flight = False
    rig.frontier.reschedule(lease.host, *rig.times())


def known(rig: FrontierRig, target: str, host: str = A) -> UrlRecord:
    record = rig.record(host, target)
    assert record is not None
    return record
