"""The heap of hosts by their next possible time."""

from hypothesis import given, settings
from hypothesis import strategies as st

from crawl_platform.frontier.hosts import Agenda


def test_hosts_come_out_when_they_are_due_and_not_before() -> None:
    agenda = Agenda()
    agenda.put("late", 20.0)
    agenda.put("early", 10.0)

    assert agenda.pop_due(9.9) is None
    assert agenda.next_at() == 10.0
    assert agenda.pop_due(15.0) == "early"
    assert agenda.pop_due(15.0) is None
    assert agenda.pop_due(20.0) == "late"
    assert agenda.next_at() is None


def test_a_later_entry_replaces_an_earlier_one_in_either_direction() -> None:
    agenda = Agenda()
    agenda.put("a", 10.0)
    agenda.put("a", 30.0)
    agenda.put("b", 30.0)
    agenda.put("b", 5.0)

    assert agenda.pop_due(29.0) == "b"
    assert agenda.pop_due(29.0) is None
    assert agenda.pop_due(30.0) == "a"
    assert agenda.pop_due(99.0) is None


def test_a_dropped_host_does_not_come_out() -> None:
    agenda = Agenda()
    agenda.put("a", 1.0)
    agenda.drop("a")
    agenda.drop("never there")

    assert "a" not in agenda
    assert agenda.pop_due(2.0) is None


def test_of_hosts_that_are_due_together_the_one_served_longest_ago_comes_first() -> None:
    agenda = Agenda()
    order = []
    for host in "aaabc":
        agenda.put(host, 1.0)

    for _ in range(6):
        host = agenda.pop_due(1.0)
        assert host is not None
        order.append(host)
        agenda.served(host)
        agenda.put(host, 1.0)

    assert "".join(order) == "abcabc"


@given(st.lists(st.tuples(st.sampled_from("abcde"), st.floats(0, 100)), max_size=40))
@settings(deadline=None)
def test_it_is_a_map_of_hosts_to_times_read_in_order(entries: list[tuple[str, float]]) -> None:
    agenda, model = Agenda(), {}
    for host, at in entries:
        agenda.put(host, at)
        model[host] = at

    popped = []
    while (host := agenda.pop_due(1_000.0)) is not None:
        popped.append(host)

    assert popped == sorted(model, key=lambda host: (model[host], host))
