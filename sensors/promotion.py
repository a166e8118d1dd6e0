"""Decided promotions and customers' requests go to the exchange, without a run.

Three sources, each with its own cursor:
1. rows of `promotions` and `probation` up to versions whose blocking checks passed in the run that reported them;
2. rows of `requests` of kind promote, exclude and lift that came by table (exclusions and lifts first, in the
   order they were asked for); kinds that don't exist are refused;
3. late links: URLs of a promoted host that pages showed while its promotion was under way. Cells that did
   not know the host as seed yet recorded them as horizon; they are looked up again at set times.
"""

from collections.abc import Callable
from typing import Any

import dagster as dg
import msgspec

from crawl_platform.clock import Clock
from crawl_platform.errors import ConfigurationError
from crawl_platform.fleet.client import FleetClient
from crawl_platform.lake.extension import literal, open_duckdb
from crawl_platform.settings import Orchestration, Settings
from resources.cadence import Cadence
from resources.fleet import FleetResource
from resources.lake import LakeResource
from resources.requests import (
    KNOWN_URLS,
    Request,
    new_requests,
    refuse,
    require_fresh,
    require_host,
    require_kind,
)
from resources.requests import Cursor as RequestCursor

ASSET = dg.AssetKey("promotions")
EVENTS_PER_TICK = 20
BARS = ("exclude", "lift")

LATE_URLS = """
SELECT dst_host AS host, dst_url AS url FROM links_now l
WHERE dst_host IN (SELECT unnest($hosts::VARCHAR[]))
    AND NOT EXISTS (SELECT 1 FROM promotions p WHERE p.host = l.dst_host AND list_contains(p.urls, l.dst_url))
    AND NOT EXISTS (SELECT 1 FROM fetches f WHERE f.url = l.dst_url)
    AND NOT EXISTS (
        SELECT 1 FROM requests r JOIN promotions p ON p.host = r.target
        WHERE r.kind = 'remove' AND r.via = 'exchange' AND r.target = l.dst_host AND r.requested_at > p.decided_at)
GROUP BY dst_host, dst_url
QUALIFY row_number() OVER (PARTITION BY dst_host ORDER BY count(DISTINCT src_host) DESC, dst_url) <= $most
ORDER BY dst_host, dst_url
"""


class Published(msgspec.Struct, frozen=True):
    """A promotion handed over at `at` (UTC seconds), `looked` times looked up again for late links."""

    host: str
    decision_id: str
    at: float
    looked: int = 0


class Cursor(msgspec.Struct, frozen=True):
    """`event`: last event of the asset that was handled; `version`: of `promotions`, published up to here, `judged` of
    `probation`."""

    event: int = 0
    version: int = -1
    judged: int = -1
    requests: RequestCursor = RequestCursor()
    late: tuple[Published, ...] = ()


class Handover:
    """One tick's work: what it publishes through `client` and remembers of it."""

    def __init__(
        self,
        lake: LakeResource,
        client: FleetClient,
        now: float,
        limits: Orchestration,
        log: Callable[..., None],
    ) -> None:
        self._lake = lake
        self._store = lake.open()
        self._client = client
        self._now = now
        self._most_urls = limits.promotion_urls
        self._most_pages = limits.probation_pages
        self._log = log
        self.published: list[Published] = []
        self.demoted: set[str] = set()

    def decided(self, since: int, until: int) -> None:
        """Source 1: rows of `promotions` after version `since`, up to `until`."""
        for row in self._rows("promotions", "urls, requested, position", since, until, "position, host"):
            bound = 0 if row["requested"] else self._most_pages
            self._promote(row["host"], row["urls"] or [], row["decision_id"], row["reason"], bound)

    def judged(self, since: int, until: int) -> None:
        """Source 1 as well: rows of `probation`."""
        for row in self._rows("probation", "urls, verdict, promotion", since, until, "host"):
            host, decision, reason = row["host"], row["decision_id"], row["reason"]
            if row["verdict"] == "passed":
                self._promote(host, row["urls"] or [], decision, f"has passed probation: {reason}", 0)
                continue
            self.demoted.add(host)
            try:
                told = self._client.demote(
                    host, promotion=row["promotion"], decision_id=decision, reason=reason
                )
            except ConfigurationError as error:
                self._log("demotion of %s vetoed: %s", host, error)
                continue
            self._log("demoted %s: %s" if told else "%s is not demoted, it was asked for: %s", host, reason)

    def _rows(self, table: str, columns: str, since: int, until: int, order: str) -> list[dict[str, Any]]:
        source = literal(str(self._store.path(table)))
        older = f"ANTI JOIN delta_scan({source}, version => {since}) o ON o.decision_id = n.decision_id"
        query = f"""
            SELECT decision_id, host, reason, {columns} FROM delta_scan({source}, version => {until}) n
            {older if since >= 0 else ""} ORDER BY decided_at, {order}
        """
        with open_duckdb() as connection:
            rows: list[dict[str, Any]] = connection.execute(query).to_arrow_table().to_pylist()
        return rows

    def _promote(self, host: str, urls: list[str], decision_id: str, reason: str, bound: int) -> None:
        try:
            self._client.promote(
                host, urls or [f"https://{host}/"], decision_id=decision_id, reason=reason, most_pages=bound
            )
        except ConfigurationError as error:
            self._log("promotion of %s vetoed: %s", host, error)
            return
        self._log("promoted %s with %d known URLs: %s", host, len(urls), reason)
        self.published.append(Published(host, decision_id, self._now))

    def asked(self, request: Request) -> None:
        """Source 2: one request of kind promote, exclude or lift, or of one that doesn't exist."""
        try:
            require_kind(request)
            require_fresh(request, self._now)
            if request.kind in BARS:
                self._bar(request)
                return
            urls = self._known_urls(require_host(request.target))
        except ConfigurationError as error:
            self._log("request %s refused: %s", request.request_id, error)
            refuse(self._store, request, str(error), self._now, "promotion sensor")
            return
        reason = f"asked for by {request.requested_by}: {request.reason or 'no reason given'}"
        self._promote(request.target, urls, request.request_id, reason, 0)

    def _bar(self, request: Request) -> None:
        if request.kind == "exclude":
            self._client.exclude(request.target, request_id=request.request_id, reason=request.reason)
            self._log("excluded %s: %s", request.target, request.reason)
        else:
            self._client.lift(request.target, request_id=request.request_id, reason=request.reason)
            self._log("lifted the exclusion of %s: %s", request.target, request.reason)

    def late_links(self, published: tuple[Published, ...], times: tuple[float, ...]) -> tuple[Published, ...]:
        """Source 3: look for late links of the hosts whose time it is; returns those still to be looked at."""
        waiting = [p for p in published if p.looked < len(times) and p.host not in self.demoted]
        due = [p for p in waiting if self._now - p.at >= times[p.looked]]
        late = self._late_urls([p.host for p in due]) if due else {}
        for promotion in due:
            urls = late.get(promotion.host, [])
            if urls:
                decision, reason = promotion.decision_id, "links that were under way at its promotion"
                self._client.promote(promotion.host, urls, decision_id=decision, reason=reason)
                self._log("sent %d late URLs of %s", len(urls), promotion.host)
        return tuple(msgspec.structs.replace(p, looked=p.looked + 1) if p in due else p for p in waiting)

    def _late_urls(self, hosts: list[str]) -> dict[str, list[str]]:
        parameters = {"hosts": hosts, "most": self._most_urls}
        with self._lake.read("links", "fetches", also=("promotions", "requests")) as reading:
            rows = reading.connection.execute(LATE_URLS, parameters).fetchall()
        found: dict[str, list[str]] = {}
        for host, url in rows:
            found.setdefault(host, []).append(url)
        return found

    def _known_urls(self, host: str) -> list[str]:
        with self._lake.read("links", "fetches") as reading:
            return [row["dst_url"] for row in reading.rows(KNOWN_URLS, [host, self._most_urls])]


def promotion_sensor(cadence: Cadence) -> dg.SensorDefinition:
    """A sensor that hands decided promotions and requests over to the fleet."""

    @dg.sensor(
        name="promotion",
        minimum_interval_seconds=cadence.promotion_tick,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Hands promotions whose checks passed, and requests to promote, exclude or lift, to the fleet.",
    )
    def promotion(
        context: dg.SensorEvaluationContext,
        lake: LakeResource,
        fleet: FleetResource,
        crawl_settings: dg.ResourceParam[Settings],
        clock: dg.ResourceParam[Clock],
    ) -> dg.SensorResult | dg.SkipReason:
        store = lake.open()
        if not store.exists():
            return dg.SkipReason(f"There is no lake at {store.root} yet: start a crawl.")
        cursor = msgspec.json.decode(context.cursor or "{}", type=Cursor)
        limits = crawl_settings.orchestration
        handover = Handover(lake, fleet.client(), clock.now(), limits, context.log.info)
        requests, read = new_requests(store, (*BARS, "promote"), cursor.requests, unknown=True)
        for request in sorted(requests, key=lambda r: (0, r.at) if r.kind in BARS else (1, 0.0)):
            handover.asked(request)
        event, version, judged = passed_versions(context.instance, cursor)
        if judged > cursor.judged:
            handover.judged(cursor.judged, judged)
        if version > cursor.version:
            handover.decided(cursor.version, version)
        late = (*handover.late_links(cursor.late, cadence.late_links), *handover.published)
        following = Cursor(event, version, judged, read, late)
        outcome = f"{len(handover.published)} hosts promoted, {len(requests)} requests handled."
        return dg.SensorResult(skip_reason=outcome, cursor=msgspec.json.encode(following).decode())

    return promotion


def passed_versions(instance: dg.DagsterInstance, cursor: Cursor) -> tuple[int, int, int]:
    """(last event handled, versions of `promotions` and `probation` that may be published) after the newest events.

    An event counts if every blocking check of its own run passed; a failed one is passed over, and one
    whose run has not said yet is waited for.
    """
    event, version, judged = cursor.event, cursor.version, cursor.judged
    selection = dg.AssetRecordsFilter(ASSET, after_storage_id=event or None)
    for record in instance.fetch_materializations(selection, limit=EVENTS_PER_TICK, ascending=True).records:
        passed = _checks_passed(instance, record.run_id)
        if passed is None and not _finished(instance, record.run_id):
            break
        event = record.storage_id
        if passed and record.asset_materialization:
            told = record.asset_materialization.metadata
            version = max(version, _number(told["delta_version"]))
            judged = max(judged, _number(told["probation_version"]))
    return event, version, judged


def _number(value: dg.MetadataValue) -> int:
    return int(str(value.value))


def _checks_passed(instance: dg.DagsterInstance, run_id: str) -> bool | None:
    """Whether all blocking checks of the asset passed in that run; None if none was evaluated."""
    records = instance.get_records_for_run(run_id, of_type=dg.DagsterEventType.ASSET_CHECK_EVALUATION).records
    events = [r.event_log_entry.dagster_event for r in records]
    results = [e.asset_check_evaluation_data for e in events if e]
    blocking = [r.passed for r in results if r.asset_key == ASSET and r.blocking]
    return all(blocking) if blocking else None


def _finished(instance: dg.DagsterInstance, run_id: str) -> bool:
    run = instance.get_run_by_id(run_id)
    return run is None or run.is_finished
