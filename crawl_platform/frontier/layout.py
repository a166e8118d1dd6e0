"""The layout of a cell's store as a whole: its version, and how an older one becomes the present one.

Fields that a record has gained need no migration (`records.decode`). What does:

    1  places in queues have no value: what a claim must know of a URL stood in its record alone
    2  they carry a `Waiting`, a copy from the record

Stores of both were written without a version; those that have one say `!layout`.
"""

import logging

from crawl_platform.errors import StateError, StateTooNewError
from crawl_platform.frontier.kv import Batch, OrderedKV
from crawl_platform.frontier.records import UrlRecord, Waiting, decode, encode, url_key, waiting

log = logging.getLogger(__name__)
LAYOUT = 2
KEY = b"!layout"
PORTION = 5_000


def bring_up_to_date(kv: OrderedKV) -> int:
    """Migrate a store of an older layout; returns the number of entries that were rewritten. Before anything else is
    read from it. Killed on the way, it begins anew.

    Raises `StateTooNewError` for a layout that this release does not know.
    """
    found = kv.get(KEY)
    version = LAYOUT if found is None and _is_empty(kv) else int(found or b"1")
    if version > LAYOUT:
        raise StateTooNewError(
            f"the cell's state has layout {version}, this release knows {LAYOUT}: run the newer release, or restore "
            "state and lake of the same day"
        )
    migrated = _fill_queues(kv) if version < LAYOUT else 0
    if found is None or version < LAYOUT:
        mark = Batch()
        mark.put(KEY, str(LAYOUT).encode())
        kv.write(mark, sync=True)
    if migrated:
        log.warning("state of layout %d brought to %d: %d entries", version, LAYOUT, migrated)
    return migrated


def _is_empty(kv: OrderedKV) -> bool:
    return next(kv.scan(b"\0", b"\xff"), None) is None


def _fill_queues(kv: OrderedKV) -> int:
    """1 → 2. An entry without its record is no URL that is known: it goes."""
    batch, migrated = Batch(), 0
    for key, value in kv.scan(b"q", b"r"):
        if _is_waiting(value):
            continue
        shard, (host, rest) = int.from_bytes(key[1:3], "big"), key[3:].split(b"\0", 1)
        record = kv.get(url_key(shard, host.decode(), rest[9:].decode()))
        if record is None:
            batch.delete(key)
        else:
            batch.put(key, encode(waiting(decode(record, UrlRecord))))
        migrated += 1
        if len(batch) == PORTION:
            kv.write(batch)
            batch = Batch()
    kv.write(batch, sync=True)
    return migrated


def _is_waiting(value: bytes) -> bool:
    try:
        decode(value, Waiting)
    except StateTooNewError:
        raise
    except StateError:
        return False
    return True
