"""What a build of the marts is made from: the order that Dagster writes and dbt's connection reads.

The two are different processes; a file that stays at one place between them leaves dbt's cache of the parsed
project valid, where values in the environment or in `--vars` would have it parse everything again.
"""

from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import msgspec

from crawl_platform.frontier.posterior import prior_of
from crawl_platform.lake.extension import open_duckdb
from crawl_platform.lake.lake import Lake
from crawl_platform.lake.views import create_views
from crawl_platform.settings import Refresh

INPUTS = ("fetches", "hosts", "frontier", "promotions", "change_rates", "cold_priors", "commits")
"""Tables that the models read; `commits` says when the others agreed with each other."""
HISTORY = timedelta(days=90)
"""How far back marts with a row per day go: each build reads all of it."""
BEFORE_ALL = datetime(1970, 1, 1, tzinfo=UTC)

SNAPSHOT_AGE = "SELECT min(taken) FROM (SELECT max(snapshot_at) AS taken FROM frontier GROUP BY shard)"


class Order(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The lake at `root`, its tables at `versions`, as of the time of `commit_id`.

    Fetches are read from `first_day` on where days are counted, and from `snapshot_day` on where the last
    snapshot of the frontier says the rest. `prior_a` (shape) and `prior_b` (days) are the Gamma prior of the
    change rate of a page of which nothing is known.
    """

    root: str
    versions: dict[str, int]
    commit_id: int | None
    as_of: datetime
    first_day: date
    snapshot_day: date
    prior_a: float
    prior_b: float


def order_of(lake: Lake, refresh: Refresh) -> Order:
    """What a build made now reads: the tables at the last commit. The same versions give the same order."""
    versions, commit_id = lake.vector(tables=INPUTS)
    unknown = prior_of(refresh.prior_shape, refresh.prior_rate)
    as_of = BEFORE_ALL if commit_id is None else lake.commit(commit_id).committed_at
    return Order(
        root=str(lake.root),
        versions=dict(sorted(versions.items())),
        commit_id=commit_id,
        as_of=as_of,
        first_day=max(as_of - HISTORY, BEFORE_ALL).date(),
        snapshot_day=_oldest_snapshot(lake, versions).date(),
        prior_a=unknown.a,
        prior_b=unknown.b,
    )


def _oldest_snapshot(lake: Lake, versions: dict[str, int]) -> datetime:
    """A day before the oldest of the shards' last snapshots: a request that it lacks had begun by then."""
    with open_duckdb() as connection:
        create_views(connection, lake.root, versions, None, frozenset({"frontier"}))
        (at,) = connection.execute(SNAPSHOT_AGE).fetchone() or (None,)
    return BEFORE_ALL if at is None else at - timedelta(days=1)


def write_order(order: Order, path: Path) -> None:
    path.write_bytes(msgspec.json.format(msgspec.json.encode(order), indent=1))


def read_order(path: str | Path) -> Order:
    """Raises `msgspec.ValidationError` for a file of another form."""
    return msgspec.json.decode(Path(path).read_bytes(), type=Order)
