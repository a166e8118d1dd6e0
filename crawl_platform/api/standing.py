"""What became of a request, from the lake and the directives in force."""

from typing import Any

from crawl_platform.api.contract import FetchFacts, Standing
from crawl_platform.clock import as_datetime
from crawl_platform.errors import ExchangeError
from crawl_platform.fleet.client import FleetClient
from crawl_platform.lake.lake import Lake
from resources.requests import Request, find_requests

FETCH = """
SELECT fetch_id, started_at, outcome, status, changed FROM fetches
WHERE request_id = $1 AND date >= $2 ORDER BY started_at DESC LIMIT 1
"""
REFUSED = "SELECT reason FROM decisions WHERE decision_id = 'refused-' || $1 LIMIT 1"
PROMOTED = "SELECT 1 FROM hosts WHERE host = $2 AND decision_id = $1 AND event = 'promoted' LIMIT 1"


def standing_of(lake: Lake, client: FleetClient, request_id: str) -> Standing | None:
    """None for an id that nobody has asked under."""
    request = next((r for r in find_requests(lake, request_id) if r.request_id == request_id), None)
    if request is None:
        return None
    refused = _rows(lake, REFUSED, request_id)
    if refused:
        return _standing(request, "refused", refused[0]["reason"])
    if request.kind == "recrawl":
        return _recrawled(lake, request)
    if request.kind == "promote" and _rows(lake, PROMOTED, request_id, request.target):
        return _standing(request, "promoted", "The host's entry is in the lake.")
    return _pending(request) if request.kind == "promote" else _directive(client, request)


def _recrawled(lake: Lake, request: Request) -> Standing:
    found = _rows(lake, FETCH, request.request_id, as_datetime(request.at).date())
    return _standing(request, "fetched", fetch=FetchFacts(**found[0])) if found else _pending(request)


def _directive(client: FleetClient, request: Request) -> Standing:
    try:
        current = client.directive(request.target)
    except ExchangeError as error:
        return _standing(
            request, _handed(request), f"The exchange does not say whether it is in force: {error}"
        )
    if current is not None and current.decision_id == request.request_id:
        return _standing(request, "in_force", "Every cell obeys it.")
    if request.via == "exchange":
        return _standing(request, "accepted", "A later word about the same name is in force.")
    return _pending(request)


def _pending(request: Request) -> Standing:
    waits = "The exchange was away; a sensor hands it over when it is back." if request.via == "table" else ""
    return _standing(request, _handed(request), waits)


def _handed(request: Request) -> Any:
    return "waiting" if request.via == "table" else "accepted"


def _standing(request: Request, state: Any, detail: str = "", fetch: FetchFacts | None = None) -> Standing:
    return Standing(
        request.request_id,
        request.kind,
        request.target,
        request.requested_by,
        as_datetime(request.at),
        request.reason,
        state,
        detail,
        fetch,
    )


def _rows(lake: Lake, sql: str, *parameters: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = lake.query(sql, list(parameters)).to_pylist()
    return found
