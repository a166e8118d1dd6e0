"""What a committed epoch still owes to others, kept in the cell's own store.

Steps 2–4 of the protocol seen from the cell. The manifest and the messages are written in the epoch's
batch (2: commit point); they are published (3) as often as needed, and forgotten (4) only when every table
that the manifest names shows its transaction, or JetStream has acked the message.
"""

from collections.abc import Iterator, Mapping

import msgspec
import xxhash

from crawl_platform.commit.manifest import SERIES, Manifest, application, decode_manifest, encode_manifest
from crawl_platform.errors import LakeRewoundError
from crawl_platform.frontier.kv import Batch, OrderedKV, prefix_end

_INCARNATION, _FETCHES = b"!incarnation", b"!fetches"
_FORMER = b"!former/"


PORTION_MESSAGES, PORTION_BYTES = 500, 4_000_000
"""How much of the messages is in memory at once, however many wait."""


class OutboxMessage(msgspec.Struct, array_like=True):
    subject: str
    data: bytes


class Outbox:
    """`new_incarnation` is used if the store has none yet: a store that was lost comes back as another."""

    def __init__(self, kv: OrderedKV, new_incarnation: str) -> None:
        self._kv = kv
        stored = kv.get(_INCARNATION)
        if stored is None:
            batch = Batch()
            batch.put(_INCARNATION, new_incarnation.encode())
            kv.write(batch, sync=True)
        self.incarnation = stored.decode() if stored else new_incarnation
        self._last = {series: self._number(b"!last/" + series.encode()) for series in SERIES}
        self._confirmed = {series: self._number(b"!confirmed/" + series.encode()) for series in SERIES}
        self._next_message = 1 + max((seq for seq, _ in self.messages()), default=self._number(b"!message"))
        self.fetches = self._number(_FETCHES)
        self._manifests = {(m.series, m.number): m for m in self._read_manifests()}

    def _number(self, key: bytes) -> int:
        return int.from_bytes(self._kv.get(key) or b"", "big")

    # 2 Commit

    def next_number(self, series: str) -> int:
        return self._last[series] + 1

    def add(self, batch: Batch, manifest: Manifest, fetches: int) -> None:
        """Put the manifest and the count of fetch ids handed out into the epoch's batch."""
        batch.put(_manifest_key(manifest.series, manifest.number), encode_manifest(manifest))
        batch.put(b"!last/" + manifest.series.encode(), manifest.number.to_bytes(8, "big"))
        batch.put(_FETCHES, fetches.to_bytes(8, "big"))

    def committed(self, manifest: Manifest, fetches: int) -> None:
        """The batch with this manifest has reached the disk."""
        self._last[manifest.series] = manifest.number
        self._manifests[manifest.series, manifest.number] = manifest
        self.fetches = fetches

    def add_message(self, batch: Batch, subject: str, data: bytes) -> None:
        batch.put(_message_key(self._next_message), msgspec.msgpack.encode(OutboxMessage(subject, data)))
        batch.put(b"!message", self._next_message.to_bytes(8, "big"))
        self._next_message += 1

    # 3 Publish

    def manifests(self) -> list[Manifest]:
        """Not yet forgotten, in order."""
        return sorted(self._manifests.values(), key=lambda m: (m.series, m.number))

    def messages(self, after: int = 0) -> Iterator[tuple[int, OutboxMessage]]:
        """Not yet acked, in order, from the first sequence above `after`: (sequence, message)."""
        for key, value in self._kv.scan(_message_key(after + 1), prefix_end(b"o")):
            yield int.from_bytes(key[1:], "big"), msgspec.msgpack.decode(value, type=OutboxMessage)

    def portion(self, after: int) -> list[tuple[int, OutboxMessage]]:
        """The next messages after sequence `after`, at most so many that they fit in memory; none at the end."""
        taken: list[tuple[int, OutboxMessage]] = []
        size = 0
        for sequence, message in self.messages(after):
            taken.append((sequence, message))
            size += len(message.data)
            if len(taken) >= PORTION_MESSAGES or size >= PORTION_BYTES:
                break
        return taken

    def message_id(self, sequence: int, message: OutboxMessage) -> str:
        """By which NATS knows a repeat. It names the content too: a state that lost its last records uses a sequence
        twice, and the second message must not be taken for the first."""
        return f"{self.incarnation}-{sequence}-{xxhash.xxh3_64_hexdigest(message.data)}"

    def sent(self, sequences: list[int]) -> None:
        """JetStream has acked these messages."""
        batch = Batch()
        for sequence in sequences:
            batch.delete(_message_key(sequence))
        self._kv.write(batch)

    # 4 Forget

    def spooled_bytes(self) -> int:
        """Staged bytes that the lake has not confirmed yet."""
        return sum(manifest.size for manifest in self._manifests.values())

    def confirm(self, transactions: dict[str, dict[str, int]]) -> list[Manifest]:
        """Forget what the lake shows. `transactions`: table → application → number.

        Raises `LakeRewoundError` if a number has gone back below one seen before: the lake was restored to
        an older state, and to go on would lose rows silently.
        """
        done = [
            m for m in self.manifests() if all(_shown(transactions, t, m) for t in m.tables | {"commits"})
        ]
        self._refuse_rewound(transactions)
        batch = Batch()
        for manifest in done:
            batch.delete(_manifest_key(manifest.series, manifest.number))
            self._confirmed[manifest.series] = max(self._confirmed[manifest.series], manifest.number)
            batch.put(
                b"!confirmed/" + manifest.series.encode(), self._confirmed[manifest.series].to_bytes(8, "big")
            )
        if done:
            self._kv.write(batch)
        for manifest in done:
            del self._manifests[manifest.series, manifest.number]
        return done

    def _refuse_rewound(self, transactions: dict[str, dict[str, int]]) -> None:
        for series, confirmed in self._confirmed.items():
            shown = transactions.get("commits", {}).get(application(self.incarnation, series), 0)
            if shown < confirmed:
                raise LakeRewoundError(
                    f"the lake shows {series} manifest {shown} of this cell, but {confirmed} was committed before: "
                    "it was restored to an older state. Restore the cells' state of the same day, "
                    "or start them with fresh state folders to crawl again what is missing."
                )

    # a state older than what others have of it

    def forgot(self, known: Mapping[str, int]) -> bool:
        """Whether somebody knows a later manifest of ours than we do. `known`: series → highest number seen."""
        return any(number > self._last[series] for series, number in known.items())

    def renew(self, new_incarnation: str) -> None:
        """Begin new series under another incarnation: our last numbers were used by epochs that we know nothing of.

        To be called when the lake shows every manifest that is left here.
        """
        batch = Batch()
        batch.put(_INCARNATION, new_incarnation.encode())
        batch.put(_FORMER + self.incarnation.encode(), b"")
        for series in SERIES:
            batch.delete(b"!last/" + series.encode())
            batch.delete(b"!confirmed/" + series.encode())
        for manifest in self._manifests.values():
            batch.delete(_manifest_key(manifest.series, manifest.number))
        self._kv.write(batch, sync=True)
        self.incarnation = new_incarnation
        self._last, self._confirmed, self._manifests = dict.fromkeys(SERIES, 0), dict.fromkeys(SERIES, 0), {}

    def _read_manifests(self) -> Iterator[Manifest]:
        return unforgotten(self._kv)


def incarnations(kv: OrderedKV) -> list[str]:
    """Those whose rows the store's URLs may have: its own and the former ones."""
    former = [key[len(_FORMER) :].decode() for key, _ in kv.scan(_FORMER, prefix_end(_FORMER))]
    own = kv.get(_INCARNATION)
    return former if own is None else [own.decode(), *former]


def inherit(batch: Batch, incarnation: str) -> None:
    """URLs come with a shard whose rows are that incarnation's: what befalls these is the store's concern."""
    batch.put(_FORMER + incarnation.encode(), b"")


def was_ours(kv: OrderedKV, incarnation: str) -> bool:
    """Whether the store went on as another incarnation since, or has shards of that one: what befalls its rows is its
    concern."""
    return kv.get(_FORMER + incarnation.encode()) is not None


def unforgotten(kv: OrderedKV) -> Iterator[Manifest]:
    """The manifests in a cell's store that the lake has not confirmed yet."""
    for _, value in kv.scan(b"m", prefix_end(b"m")):
        yield decode_manifest(value)


def _shown(transactions: dict[str, dict[str, int]], table: str, manifest: Manifest) -> bool:
    return transactions.get(table, {}).get(manifest.app, 0) >= manifest.number


def _manifest_key(series: str, number: int) -> bytes:
    return b"m" + series.encode() + b"/" + number.to_bytes(8, "big")


def _message_key(sequence: int) -> bytes:
    return b"o" + sequence.to_bytes(8, "big")
