"""What a committed epoch still owes: numbered, published as often as needed, forgotten only when shown."""

from itertools import count

import pytest

from crawl_platform.commit.manifest import BULK, FAST, SERIES, Manifest, decode_manifest, encode_manifest
from crawl_platform.commit.outbox import Outbox
from crawl_platform.errors import LakeRewoundError
from crawl_platform.frontier.kv import Batch, OrderedKV
from crawl_platform.lake.delta import StagedFile

TABLES = ("fetches", "links")


def manifest(outbox: Outbox, series: str = BULK, tables: tuple[str, ...] = TABLES) -> Manifest:
    number = outbox.next_number(series)
    files = tuple(StagedFile(t, f"_staged/{t}-{number}.parquet", {}, 100, 1, 0, "{}") for t in tables)
    return Manifest(outbox.incarnation, series, number, "cell-0", 1, 0.0, (0,), files)


def commit(kv: OrderedKV, outbox: Outbox, series: str = BULK, fetches: int = 0) -> Manifest:
    batch, made = Batch(), manifest(outbox, series)
    outbox.add(batch, made, fetches)
    kv.write(batch, sync=True)
    outbox.committed(made, fetches)
    return made


def shown(outbox: Outbox, number: int, *tables: str) -> dict[str, dict[str, int]]:
    """Transactions of the bulk series as the lake shows them."""
    return {table: {f"{outbox.incarnation}/{BULK}": number} for table in tables}


ALL = (*TABLES, "commits")


def test_an_incarnation_is_chosen_once_per_store(store: OrderedKV) -> None:
    assert Outbox(store, "first").incarnation == "first"
    assert Outbox(store, "second").incarnation == "first"


def test_manifests_are_numbered_without_gaps_per_series_across_restarts(store: OrderedKV) -> None:
    numbers: dict[str, list[int]] = {series: [] for series in SERIES}
    for series in (BULK, FAST, BULK, BULK, FAST):
        outbox = Outbox(store, "a")  # a restart before each
        numbers[series].append(commit(store, outbox, series).number)

    assert numbers == {BULK: [1, 2, 3], FAST: [1, 2]}


def test_a_number_whose_batch_was_never_written_is_used_again(store: OrderedKV) -> None:
    outbox = Outbox(store, "a")
    outbox.add(Batch(), manifest(outbox), 0)

    assert Outbox(store, "a").next_number(BULK) == 1


def test_fetch_ids_handed_out_are_counted_across_restarts(store: OrderedKV) -> None:
    commit(store, Outbox(store, "a"), fetches=41)

    assert Outbox(store, "a").fetches == 41


def test_unforgotten_manifests_come_back_after_a_restart_in_order(store: OrderedKV) -> None:
    outbox = Outbox(store, "a")
    made = [commit(store, outbox, series) for series in (BULK, FAST, BULK)]

    again = Outbox(store, "a")

    assert again.manifests() == sorted(made, key=lambda m: (m.series, m.number))
    assert again.spooled_bytes() == outbox.spooled_bytes() == 3 * len(TABLES) * 100


def test_more_than_nine_manifests_stay_in_order_of_their_numbers(store: OrderedKV) -> None:
    outbox = Outbox(store, "a")
    for _ in range(300):
        commit(store, outbox)

    assert [m.number for m in Outbox(store, "a").manifests()] == list(range(1, 301))


@pytest.mark.parametrize("missing", ALL)
def test_a_manifest_is_kept_until_every_table_it_names_and_commits_show_it(
    store: OrderedKV, missing: str
) -> None:
    outbox = Outbox(store, "a")
    made = commit(store, outbox)

    assert outbox.confirm(shown(outbox, 1, *(t for t in ALL if t != missing))) == []
    assert outbox.confirm(shown(outbox, 0, *ALL)) == []
    assert outbox.manifests() == [made]
    assert outbox.confirm(shown(outbox, 1, *ALL)) == [made]
    assert outbox.manifests() == Outbox(store, "a").manifests() == []
    assert outbox.spooled_bytes() == 0


def test_only_what_is_shown_is_forgotten(store: OrderedKV) -> None:
    outbox = Outbox(store, "a")
    made = [commit(store, outbox) for _ in range(3)]

    assert outbox.confirm(shown(outbox, 2, *ALL)) == made[:2]
    assert Outbox(store, "a").manifests() == made[2:]


def test_a_lake_that_went_back_is_refused_also_after_a_restart(store: OrderedKV) -> None:
    outbox = Outbox(store, "a")
    for _ in range(2):
        commit(store, outbox)
    outbox.confirm(shown(outbox, 2, *ALL))

    for one in (outbox, Outbox(store, "a")):
        with pytest.raises(LakeRewoundError, match="restored to an older state"):
            one.confirm(shown(outbox, 1, *ALL))
        with pytest.raises(LakeRewoundError):
            one.confirm({})


def test_a_lake_that_stands_still_or_goes_on_is_accepted(store: OrderedKV) -> None:
    outbox = Outbox(store, "a")
    commit(store, outbox)
    outbox.confirm(shown(outbox, 1, *ALL))

    assert outbox.confirm(shown(outbox, 1, *ALL)) == []
    assert outbox.confirm(shown(outbox, 9, *ALL)) == []


def test_ablation_without_the_rewind_check_an_older_lake_goes_unnoticed(store: OrderedKV) -> None:
    class Trusting(Outbox):
        def _refuse_rewound(self, transactions: dict[str, dict[str, int]]) -> None:
            return

    outbox = Trusting(store, "a")
    commit(store, outbox)
    outbox.confirm(shown(outbox, 1, *ALL))

    assert outbox.confirm({}) == []


def test_messages_wait_in_order_until_acked(store: OrderedKV) -> None:
    outbox = Outbox(store, "a")
    batch = Batch()
    for n in range(3):
        outbox.add_message(batch, f"inbox.{n}", b"%d" % n)
    store.write(batch)

    waiting = list(Outbox(store, "a").messages())
    outbox.sent([waiting[0][0], waiting[2][0]])

    assert [message.subject for _, message in waiting] == ["inbox.0", "inbox.1", "inbox.2"]
    assert [message.data for _, message in outbox.messages()] == [b"1"]


def test_message_sequences_are_never_used_twice(store: OrderedKV) -> None:
    seen: set[int] = set()
    for restart in count():
        outbox = Outbox(store, "a")
        batch = Batch()
        outbox.add_message(batch, "inbox.1", b"x")
        store.write(batch)
        sequences = [sequence for sequence, _ in outbox.messages()]
        assert not seen & set(sequences)
        seen |= set(sequences)
        outbox.sent(sequences)
        if restart == 4:
            break

    assert len(seen) == 5


def add_messages(store: OrderedKV, outbox: Outbox, *data: bytes) -> None:
    batch = Batch()
    for one in data:
        outbox.add_message(batch, "inbox.1", one)
    store.write(batch)


def test_however_many_messages_wait_few_are_in_memory(
    store: OrderedKV, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("crawl_platform.commit.outbox.PORTION_MESSAGES", 3)
    monkeypatch.setattr("crawl_platform.commit.outbox.PORTION_BYTES", 100)
    outbox = Outbox(store, "a")
    add_messages(store, outbox, b"0", b"1", b"2", b"3", b"x" * 200, b"y" * 200, b"6")

    portions, last = [], 0
    while portion := outbox.portion(last):
        portions.append([message.data[:1] for _, message in portion])
        last = portion[-1][0]

    assert portions == [[b"0", b"1", b"2"], [b"3", b"x"], [b"y"], [b"6"]]


def test_a_sequence_that_is_used_for_another_message_is_no_repeat(store: OrderedKV) -> None:
    """As after the loss of the store's last record: NATS would swallow what it takes for a repeat."""
    outbox = Outbox(store, "a")
    add_messages(store, outbox, b"first", b"second")
    (one, first), (_, second) = outbox.messages()

    assert outbox.message_id(one, first) == outbox.message_id(one, first)
    assert outbox.message_id(one, first) != outbox.message_id(one, second)


# a state that has forgotten


def test_a_state_that_others_know_more_of_has_forgotten(store: OrderedKV) -> None:
    outbox = Outbox(store, "a")
    commit(store, outbox)

    assert not outbox.forgot({BULK: 1, FAST: 0})
    assert outbox.forgot({BULK: 2, FAST: 0})
    assert outbox.forgot({BULK: 1, FAST: 1})


def test_another_incarnation_begins_new_series_and_owes_nothing_but_messages(store: OrderedKV) -> None:
    outbox = Outbox(store, "a")
    for _ in range(2):
        commit(store, outbox, fetches=7)
    outbox.confirm(shown(outbox, 1, *ALL))
    add_messages(store, outbox, b"kept")

    outbox.renew("b")

    for one in (outbox, Outbox(store, "never")):
        assert one.incarnation == "b"
        assert [one.next_number(series) for series in SERIES] == [1, 1]
        assert (one.manifests(), one.fetches) == ([], 7)
        assert [message.data for _, message in one.messages()] == [b"kept"]
        assert one.confirm({}) == [], "an incarnation of which the lake knows nothing was not rewound"


def test_manifest_and_message_are_in_the_stores_batch_or_nowhere(store: OrderedKV) -> None:
    outbox, batch = Outbox(store, "a"), Batch()
    outbox.add(batch, manifest(outbox), 5)
    outbox.add_message(batch, "inbox.1", b"x")

    assert owed(Outbox(store, "a")) == (0, 0, 0)
    store.write(batch, sync=True)
    assert owed(Outbox(store, "a")) == (1, 1, 5)


def owed(outbox: Outbox) -> tuple[int, int, int]:
    return len(outbox.manifests()), len(list(outbox.messages())), outbox.fetches


def test_a_manifest_survives_the_wire(store: OrderedKV) -> None:
    made = manifest(Outbox(store, "a"))

    assert decode_manifest(encode_manifest(made)) == made
