"""NATS JetStream as the fleet uses it: streams, buckets, and nothing about crawling.

`MANIFESTS` (work queue) rings the committer's bell; `INBOX` is the one door into each shard, read in
order from the sequence that the shard has applied; the bucket `directives` holds what all cells obey (host
policies, the schedule window, pauses), `shards` and `addresses` who owns what, `cells` who is alive,
`leases` who commits and `spending` what was paid today.
NATS is a doorbell: neither its duplicate window nor its retention carries correctness.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import nats
import xxhash
from nats.errors import Error as NatsError
from nats.errors import NoRespondersError
from nats.js.api import (
    AckPolicy,
    ConsumerConfig,
    DeliverPolicy,
    DiscardPolicy,
    KeyValueConfig,
    RetentionPolicy,
    StreamConfig,
)
from nats.js.errors import (
    APIError,
    BadRequestError,
    KeyNotFoundError,
    KeyWrongLastSequenceError,
    NotFoundError,
)

from crawl_platform.errors import ExchangeError, OwnershipLostError
from crawl_platform.fleet.pipeline import NEW, Question, ask_all, last_of, stored, was_first

log = logging.getLogger(__name__)
MANIFESTS, INBOX = "MANIFESTS", "INBOX"
BUCKETS = ("directives", "shards", "cells", "leases", "addresses", "spending")
REQUEST_TIMEOUT = 5.0
ASK_AGAIN = 0.2  # seconds until a question that nobody serves yet is asked again
_HEADERS = 64  # bytes of a message's headers beside its id, at most
_TOO_LARGE = 10054  # JetStream's error code for a message above the stream's own limit
Respond = Callable[[bytes], Awaitable[None]]


class MessageTooLargeError(ExchangeError):
    """NATS will never take this message: trying again is no use."""


class Endpoint(msgspec.Struct, frozen=True):
    """Where NATS is and how to log in; kept in `run/nats.json`, readable by its owner only."""

    url: str
    user: str = ""
    password: str = ""
    replicas: int = 1
    """Servers that keep each message: 3 in a cluster of three, of which one may then be lost."""

    @staticmethod
    def read(path: Path) -> "Endpoint":
        try:
            return msgspec.json.decode(path.read_bytes(), type=Endpoint)
        except FileNotFoundError as error:
            raise ExchangeError(
                f"no fleet is running here ({path} is missing): start it with `crawl up`"
            ) from error


@dataclass(frozen=True)
class Received:
    subject: str
    sequence: int
    data: bytes

    @property
    def key(self) -> str:
        """Key of a bucket's entry."""
        return self.subject.split(".", 2)[2]


PATTERN = "pattern"
_EPHEMERAL: dict[str, Any] = {"ack_policy": AckPolicy.NONE, "inactive_threshold": 60.0, "mem_storage": True}
"""A reader's consumer: it goes with its reader."""


def directive_key(kind: str, name: str = "") -> str:
    """Bucket keys allow few characters, host patterns have more: the name goes in as a 128-bit hash.

    Patterns (`*.domain`, beginnings of URLs) stand apart: who asks about one host need not read about all others.
    """
    hashed = xxhash.xxh3_128_hexdigest(name.encode())
    apart = f"{PATTERN}." if "://" in name or name.startswith("*.") else ""
    return f"{kind}.{apart}{hashed}" if name else kind


class Exchange:
    """One connection. Every method raises `ExchangeError` when NATS is away or refuses."""

    def __init__(self, connection: Any) -> None:
        self.connection = connection
        self._js = connection.jetstream(timeout=REQUEST_TIMEOUT)
        self._buckets: dict[str, Any] = {}

    @staticmethod
    async def connect(endpoint: Endpoint, name: str, *, wait: float = 5.0) -> "Exchange":
        """Connect and make sure that streams and buckets exist. Reconnects by itself later on."""
        options: dict[str, Any] = (
            {"user": endpoint.user, "password": endpoint.password} if endpoint.user else {}
        )
        try:
            connection = await asyncio.wait_for(
                nats.connect(
                    endpoint.url,
                    name=name,
                    max_reconnect_attempts=-1,
                    reconnect_time_wait=0.5,
                    connect_timeout=2,
                    error_cb=_quiet,
                    **options,
                ),
                wait,
            )
        except (NatsError, OSError, TimeoutError) as error:
            raise ExchangeError(
                f"can't reach NATS at {endpoint.url}: {str(error) or type(error).__name__}"
            ) from error
        exchange = Exchange(connection)
        await exchange._ensure(endpoint.replicas)
        return exchange

    async def _ensure(self, replicas: int) -> None:
        streams = (
            StreamConfig(
                name=MANIFESTS,
                subjects=["manifest.>"],
                retention=RetentionPolicy.WORK_QUEUE,
                discard=DiscardPolicy.NEW,
                max_bytes=1 << 30,
                num_replicas=replicas,
            ),
            StreamConfig(
                name=INBOX,
                subjects=["inbox.*"],
                retention=RetentionPolicy.LIMITS,
                discard=DiscardPolicy.NEW,
                max_bytes=4 << 30,
                num_replicas=replicas,
            ),
        )
        try:
            for config in streams:
                try:
                    await self._js.stream_info(config.name)
                except NotFoundError:
                    await self._js.add_stream(config)
            for bucket in BUCKETS:
                try:
                    self._buckets[bucket] = await self._js.key_value(bucket)
                except NotFoundError:
                    self._buckets[bucket] = await self._js.create_key_value(
                        KeyValueConfig(bucket=bucket, history=1, replicas=replicas)
                    )
        except BadRequestError as error:
            raise ExchangeError(f"NATS refuses our streams: {error}") from error
        except (NatsError, APIError, OSError, TimeoutError) as error:
            raise ExchangeError(f"NATS did not answer: {error}") from error

    async def close(self) -> None:
        """Also of a connection that was just lost: the client then writes to what is closed already."""
        try:
            await self.connection.close()
        except (NatsError, OSError, RuntimeError) as error:
            log.warning("the connection to NATS was not there to be closed: %s", error)

    @property
    def connected(self) -> bool:
        """Whether there is a connection now, as far as the client has noticed."""
        return bool(self.connection.is_connected)

    # streams

    async def publish(self, subject: str, data: bytes, message_id: str = "") -> int:
        """Publish and wait for the ack; returns the stream's sequence. Raises `MessageTooLargeError`, too."""
        headers = {"Nats-Msg-Id": message_id} if message_id else None
        # The server counts headers as well, and hangs up on a message that is too large by no more than these.
        size = len(data) + (len(message_id) + _HEADERS if message_id else 0)
        if size > self.connection.max_payload:
            raise MessageTooLargeError(f"{size} bytes to {subject}: NATS takes {self.connection.max_payload}")
        try:
            ack = await self._js.publish(subject, data, timeout=REQUEST_TIMEOUT, headers=headers)
        except APIError as error:
            refused = MessageTooLargeError if error.err_code == _TOO_LARGE else ExchangeError
            raise refused(f"publishing {size} bytes to {subject} failed: {error}") from error
        except (NatsError, OSError, TimeoutError) as error:
            raise ExchangeError(
                f"publishing to {subject} failed: {str(error) or type(error).__name__}"
            ) from error
        return int(ack.seq)

    async def inbox_reader(self, shards: Sequence[int], after: int) -> "StreamReader":
        """Messages of `shards` in order, from the first stream sequence above `after`."""
        config = ConsumerConfig(
            filter_subjects=[f"inbox.{shard}" for shard in shards],
            deliver_policy=DeliverPolicy.BY_START_SEQUENCE,
            opt_start_seq=after + 1,
            **_EPHEMERAL,
        )
        return await self._reader(INBOX, config)

    async def inbox_end(self) -> int:
        """The last sequence that any message of an inbox has had; purging doesn't take it back."""
        try:
            return int((await self._js._jsm.stream_info(INBOX)).state.last_seq)
        except (NatsError, APIError, OSError, TimeoutError) as error:
            raise ExchangeError(f"can't ask for the state of {INBOX}: {error}") from error

    async def purge_inbox(self, shard: int, upto: int) -> None:
        """Drop the shard's messages up to and including stream sequence `upto`."""
        try:
            await self._js._jsm.purge_stream(INBOX, subject=f"inbox.{shard}", seq=upto + 1)
        except (NatsError, APIError, OSError, TimeoutError) as error:
            raise ExchangeError(f"can't purge the inbox of shard {shard}: {error}") from error

    async def manifest_queue(self) -> "ManifestQueue":
        """The committer's durable consumer."""
        config = ConsumerConfig(
            durable_name="committer", ack_policy=AckPolicy.EXPLICIT, ack_wait=60.0, max_ack_pending=10_000
        )
        try:
            subscription = await self._js.pull_subscribe(
                "manifest.>", "committer", stream=MANIFESTS, config=config
            )
        except (NatsError, APIError, OSError, TimeoutError) as error:
            raise ExchangeError(f"can't read manifests: {error}") from error
        return ManifestQueue(subscription)

    async def last_manifest(self, subject: str) -> bytes | None:
        """The newest manifest that waits on `subject`, None if none does."""
        try:
            return bytes((await self._js.get_last_msg(MANIFESTS, subject)).data or b"")
        except NotFoundError:
            return None
        except (NatsError, APIError, OSError, TimeoutError) as error:
            raise ExchangeError(f"can't look for the last manifest of {subject}: {error}") from error

    # plain messages: bells that may be lost

    async def ring(self, subject: str, data: bytes = b"") -> None:
        try:
            await self.connection.publish(subject, data)
        except (NatsError, OSError) as error:
            raise ExchangeError(f"can't ring {subject}: {error}") from error

    async def on_ring(self, subject: str, callback: Any) -> None:
        async def handler(message: Any) -> None:
            callback(message.subject, message.data)

        await self.connection.subscribe(subject, cb=handler)

    # requests: a question that one process answers

    async def serve(self, subject: str, callback: Callable[[bytes, Respond], None]) -> None:
        """`callback` gets each question and a way to answer it, at once or later."""

        async def handler(message: Any) -> None:
            callback(bytes(message.data), message.respond)

        await self.connection.subscribe(subject, cb=handler)

    async def ask(self, subject: str, data: bytes, wait: float, *, absent: float = 0.0) -> bytes:
        """The answer to a question, within `wait` seconds.

        Whoever serves `subject` may be `absent` for so many seconds, as one that is just being started is.
        """
        served_by = asyncio.get_running_loop().time() + absent
        while True:
            try:
                return bytes((await self.connection.request(subject, data, timeout=wait)).data)
            except (NatsError, OSError, TimeoutError) as error:
                if isinstance(error, NoRespondersError) and asyncio.get_running_loop().time() < served_by:
                    await asyncio.sleep(ASK_AGAIN)
                    continue
                raise ExchangeError(
                    f"nobody answers on {subject}: {str(error) or type(error).__name__}"
                ) from error

    async def waiting_manifests(self) -> list[bytes]:
        """What the committer's queue holds, also what it has taken and not acked yet."""
        found: list[bytes] = []
        try:
            sequence = (await self._js.stream_info(MANIFESTS)).state.first_seq
            while True:
                message = await self._js.get_msg(MANIFESTS, sequence, subject="manifest.>", next=True)
                found.append(bytes(message.data or b""))
                sequence = int(message.seq or sequence) + 1
        except NotFoundError:
            return found
        except (NatsError, APIError, OSError, TimeoutError) as error:
            raise ExchangeError(f"can't look at the waiting manifests: {error}") from error

    # buckets

    async def get(self, bucket: str, key: str) -> tuple[bytes, int] | None:
        """Value and revision, or None."""
        try:
            entry = await self._buckets[bucket].get(key)
        except KeyNotFoundError:
            return None
        except (NatsError, APIError, OSError, TimeoutError) as error:
            raise ExchangeError(f"reading {bucket}/{key} failed: {error}") from error
        return bytes(entry.value or b""), int(entry.revision)

    async def put(self, bucket: str, key: str, value: bytes) -> int:
        try:
            return int(await self._buckets[bucket].put(key, value))
        except (NatsError, APIError, OSError, TimeoutError) as error:
            raise ExchangeError(f"writing {bucket}/{key} failed: {error}") from error

    async def swap(self, bucket: str, key: str, value: bytes, revision: int) -> int:
        """Compare and swap: write if the key's revision is `revision` (0: it must not exist).

        Raises `OwnershipLostError` if somebody else wrote first.
        """
        try:
            if revision == 0:
                return int(await self._buckets[bucket].create(key, value))
            return int(await self._buckets[bucket].update(key, value, last=revision))
        except KeyWrongLastSequenceError as error:
            raise OwnershipLostError(f"{bucket}/{key} was taken by somebody else") from error
        except (NatsError, APIError, OSError, TimeoutError) as error:
            raise ExchangeError(f"writing {bucket}/{key} failed: {error}") from error

    async def create_all(self, bucket: str, entries: Mapping[str, bytes]) -> list[str]:
        """Write keys that are not there yet, many at a time; returns those that are, and are left as they are."""
        asked = [Question(f"$KV.{bucket}.{key}", value, NEW) for key, value in entries.items()]
        answers = await ask_all(self.connection, asked)
        return [key for key, answer in zip(entries, answers, strict=True) if not was_first(answer)]

    async def values(self, bucket: str, keys: Sequence[str]) -> dict[str, bytes]:
        """The values of many keys, as far as they are there."""
        answers = await ask_all(
            self.connection, [last_of(f"KV_{bucket}", f"$KV.{bucket}.{key}") for key in keys]
        )
        found = zip(keys, map(stored, answers), strict=True)
        return {key: value for key, value in found if value is not None}

    async def items(self, bucket: str, keys: str = ">") -> dict[str, bytes]:
        """Current entries of a bucket: all, or those whose keys match (`host.pattern.*`)."""
        reader = await self.bucket_reader(bucket, keys)
        return {entry.key: entry.data for entry in await reader.present()}

    async def bucket_reader(self, bucket: str, keys: str = ">") -> "StreamReader":
        """The entries of a bucket (`present`), then its changes (`fetch`), the last value of each key only.

        A consumer of our own, which says how many entries wait: the client's watcher may report the end of
        the present before its messages have arrived, and a bucket then looks empty.
        """
        config = ConsumerConfig(
            filter_subject=f"$KV.{bucket}.{keys}", deliver_policy=DeliverPolicy.LAST_PER_SUBJECT, **_EPHEMERAL
        )
        return await self._reader(f"KV_{bucket}", config)

    async def _reader(self, stream: str, config: ConsumerConfig) -> "StreamReader":
        try:
            info = await self._js._jsm.add_consumer(stream, config)
            subscription = await self._js.pull_subscribe_bind(info.name, stream)
        except (NatsError, APIError, OSError, TimeoutError) as error:
            raise ExchangeError(f"can't read {stream}: {error}") from error
        return StreamReader(subscription, int(info.num_pending or 0))


class StreamReader:
    """Messages of a stream in order. It is lost with the server's memory: after an `ExchangeError`, open another."""

    def __init__(self, subscription: Any, waiting: int) -> None:
        self._subscription = subscription
        self._waiting = waiting

    async def present(self) -> list[Received]:
        """What was there when the reader was opened, all of it."""
        found: list[Received] = []
        while len(found) < self._waiting:
            received = await self.fetch(min(256, self._waiting - len(found)), wait=REQUEST_TIMEOUT)
            if not received:
                raise ExchangeError(f"{len(found)} of {self._waiting} entries came, then nothing")
            found += received
        return found

    async def fetch(self, batch: int = 256, wait: float = 1.0) -> list[Received]:
        """Up to `batch` messages; empty when none came within `wait` seconds."""
        return [
            Received(m.subject, int(m.metadata.sequence.stream), bytes(m.data))
            for m in await _pull(self._subscription, batch, wait)
        ]


class ManifestQueue:
    def __init__(self, subscription: Any) -> None:
        self._subscription = subscription

    async def fetch(self, batch: int = 512, wait: float = 1.0) -> list[Any]:
        """Messages (`.data`, `.ack()`) that are ours until acked."""
        return await _pull(self._subscription, batch, wait)


async def _pull(subscription: Any, batch: int, wait: float) -> list[Any]:
    try:
        return list(await subscription.fetch(batch, timeout=wait))
    except TimeoutError:
        return []
    except (NatsError, APIError, OSError) as error:
        raise ExchangeError(f"reading from NATS failed: {error}") from error


async def _quiet(error: Exception) -> None:
    """nats-py prints connection errors to stderr by default; callers see them as `ExchangeError`."""
