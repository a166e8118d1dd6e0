"""What the demo tells while it runs: each step of the loop once, when it is really in the lake.

Nothing is arranged for one web: `Show` only watches. At the end it reads the *server's* log.
"""

import time
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click

from crawl_platform.cli.crawl import Crawl
from crawl_platform.cli.demo_analysis import Analysis
from crawl_platform.cli.output import versions_text
from crawl_platform.cli.run import Interrupts
from crawl_platform.errors import ConfigurationError, ExchangeError
from crawl_platform.settings import Settings
from crawl_platform.simulation.log import Entry
from crawl_platform.simulation.running import Ready
from crawl_platform.simulation.verdict import forbidden, overlaps, short_gaps

LOOK_EVERY = 0.5
PROGRESS_EVERY = 15.0
ANALYSE_EVERY = 5.0
REST = 4.0
"""Time without looking after each look, in times what that look took: who watches must not starve what is watched."""
FASTLANE_PROMISE = 5.0


@dataclass
class Show:
    """Watches the lake and tells each milestone once, when it is really there."""

    settings: Settings
    web: Ready
    seen: dict[str, float] = field(default_factory=dict)
    fastlane: list[float] = field(default_factory=list)
    _pending: tuple[str, float] | None = None
    _asked_at: float = 0.0

    def __post_init__(self) -> None:
        self._crawl = Crawl(self.settings)
        self.analysis = Analysis(self._crawl, self.web.web())
        self._started = time.monotonic()
        self._milestones: dict[str, Callable[[], str | None]] = {
            "pages": self._pages,
            "horizon": self._horizon,
            "dagster": self._dagster,
            "promotion": self._promotion,
            "promoted_page": self._promoted_page,
            "fastlane": self._fastlane,
            "window": self._window,
        }

    @property
    def complete(self) -> bool:
        return len(self.seen) == len(self._milestones)

    @property
    def elapsed(self) -> float:
        return time.monotonic() - self._started

    def say(self, text: str) -> None:
        click.echo(f"[{self.elapsed:4.0f} s] {text}")

    def run(self, seconds: float | None, interrupts: Interrupts) -> None:
        next_progress, next_analysis, next_look = PROGRESS_EVERY, ANALYSE_EVERY, 0.0
        while seconds is None or self.elapsed < seconds:
            interrupts.sleep(LOOK_EVERY)
            self._look("fastlane", self._fastlane)
            began = self.elapsed
            if began >= next_look:
                self._look_at_all()
                next_look = self.elapsed + REST * (self.elapsed - began)
            began = self.elapsed
            if began >= next_analysis:
                for told in self.analysis.look():
                    self.say(told)
                next_analysis = self.elapsed + max(ANALYSE_EVERY, REST * (self.elapsed - began))
            if self.elapsed >= next_progress:
                next_progress += PROGRESS_EVERY
                self.say(self._progress())

    def _look_at_all(self) -> None:
        for name, look in self._milestones.items():
            if name not in self.seen:
                self._look(name, look)

    def _look(self, name: str, look: Callable[[], str | None]) -> None:
        try:
            told = look()
        except ExchangeError as error:
            self.say(f"the fleet does not answer: {error}")
            return
        if told is not None and name not in self.seen:
            self.seen[name] = self.elapsed
            self.say(told)
            if self.complete:
                self.say("the whole loop has been seen")

    def _one(self, sql: str, *parameters: Any) -> dict[str, Any] | None:
        rows = self._crawl.lake.query(sql, list(parameters)).to_pylist()
        return rows[0] if rows else None

    def _pages(self) -> str | None:
        row = self._one(
            "SELECT count(*) AS pages, count(DISTINCT host) AS hosts FROM fetches "
            "WHERE kind = 'page' AND outcome = 'ok'"
        )
        return f"{row['pages']} pages fetched from {row['hosts']} hosts" if row and row["pages"] else None

    def _horizon(self) -> str | None:
        row = self._one(HORIZON)
        if not row or not row["hosts"]:
            return None
        return f"{row['hosts']} hosts discovered on the horizon (linked, never fetched), for example {row['example']}"

    def _dagster(self) -> str | None:
        url = f"http://127.0.0.1:{self.settings.orchestration.port}"
        try:
            with urllib.request.urlopen(f"{url}/server_info", timeout=1):
                return f"Dagster is up: {url}"
        except (urllib.error.URLError, OSError):
            return None

    def _promotion(self) -> str | None:
        row = self._one("SELECT * FROM promotions ORDER BY decided_at, position LIMIT 1")
        if row is None:
            return None
        return (
            f"Dagster has promoted {row['host']}: {row['reason']}\n"
            f"         trust {row['trust']:.2e}, spam mass {row['spam_mass']:.2f}, decision {row['decision_id'][:12]} "
            f"from {versions_text(row['input_versions'])}"
        )

    def _promoted_page(self) -> str | None:
        row = self._one(
            "SELECT f.url, f.status FROM fetches f JOIN promotions p USING (host) "
            "WHERE f.kind = 'page' AND f.outcome = 'ok' ORDER BY f.started_at LIMIT 1"
        )
        return f"first page fetched from a promoted host: {row['url']} ({row['status']})" if row else None

    def _fastlane(self) -> str | None:
        """Ask for a recrawl now and then, and time it from acceptance to visibility in the lake."""
        if self._pending is not None:
            request_id, accepted = self._pending
            row = self._one("SELECT url, outcome FROM fetches WHERE request_id = $1", request_id)
            took = time.monotonic() - accepted
            if row is None:
                if took > 30:
                    self._pending = None
                return None
            self._pending = None
            self.fastlane.append(took)
            if took <= FASTLANE_PROMISE:
                return (
                    f"fastlane: {row['url']} fetched again and in the lake {took:.1f} s after it was accepted"
                )
            return None
        if "pages" in self.seen and self.elapsed - self._asked_at > 12.0:
            self._asked_at = self.elapsed
            self._ask()
        return None

    def _ask(self) -> None:
        row = self._one(RECRAWL_CANDIDATE)
        if row is not None:
            request_id = f"demo-{len(self.fastlane)}-{self.elapsed:.0f}"
            try:
                self._crawl.fleet.recrawl(row["url"], request_id=request_id)
            except ConfigurationError as error:  # its host was excluded while we watch
                self.say(f"no recrawl: {error}")
                return
            self._pending = (request_id, time.monotonic())

    def _window(self) -> str | None:
        row = self._one(WINDOW)
        if row is None:
            return None
        return (
            f"schedule window {row['window_id']} applied: {row['hosts']} hosts share {row['fetches']} fetches; "
            f"{row['done']} made under it so far"
        )

    def _progress(self) -> str:
        row = self._one(PROGRESS) or {}
        return (
            f"… {row['pages']:,} pages, {row['hosts']} hosts crawled, {row['refetched']:,} revisits of which "
            f"{row['changed']:,} found a change, {row['promoted']} promotions"
        )

    def summary(self, *, whole: bool) -> None:
        """What was seen, and what to open and query; `whole`: with the last word of the analysis, which takes seconds
        that whoever pressed Ctrl-C does not have."""
        for name in self._milestones:
            if name not in self.seen:
                self.say(f"NOT seen: {name}")
        if self.fastlane:
            took = sorted(self.fastlane)
            middle, worst = took[len(took) // 2], took[-1]
            self.say(
                f"fastlane: {len(took)} recrawls, median {middle:.1f} s, slowest {worst:.1f} s until in the lake"
            )
        for line in self.analysis.summary() if whole else self.analysis.missing():
            click.echo(line)
        home = self.settings.root
        shown = home.relative_to(Path.cwd()) if home.is_relative_to(Path.cwd()) else home
        click.echo(
            f"""
What to look at next (the lake stays after the demo):
  .venv/bin/crawl sql --home {shown} "SELECT outcome, count(*) FROM fetches GROUP BY ALL ORDER BY 2 DESC"
  .venv/bin/crawl sql --home {shown} --tables
  .venv/bin/crawl sql --home {shown} "SELECT * FROM marts.host_daily ORDER BY pages DESC LIMIT 10"
  .venv/bin/crawl promotions --home {shown}
  .venv/bin/crawl explain --home {shown} {self.web.seeds[0]}"""
        )

    def verdict(self, log: list[Entry]) -> bool:
        """Politeness as the server saw it; True if nothing is wrong."""
        truth, delay = self.web.web(), self.settings.politeness.host_delay
        seeds = {row["host"] for row in self._crawl.lake.query(SEEDED).to_pylist()}
        wrong = {
            "requests that overlapped": len(overlaps(log)) + len(overlaps(log, by="address")),
            "gaps under the delay": len(short_gaps(log, delay)) + len(short_gaps(log, delay, by="address")),
            "paths that robots forbids": len(forbidden(log, truth)),
            "hosts outside the seed": len({request.host for request in log} - seeds),
        }
        click.echo(
            f"the server's log: {len(log):,} requests; "
            + ", ".join(f"{n} {what}" for what, n in wrong.items())
        )
        return not any(wrong.values())


HORIZON = """
    WITH seed AS (SELECT host FROM hosts_now WHERE state = 'seed')
    SELECT count(DISTINCT dst_host) AS hosts, min(dst_host) AS example
    FROM links WHERE dst_host NOT IN (SELECT host FROM seed)
"""
RECRAWL_CANDIDATE = """
    SELECT url FROM fetches WHERE kind = 'page' AND outcome = 'ok' AND request_id IS NULL AND duration_ms < 500
    ORDER BY hash(url), started_at DESC LIMIT 1
"""
WINDOW = """
    WITH used AS (SELECT window_id, count(*) AS done FROM fetches WHERE window_id IS NOT NULL GROUP BY 1)
    SELECT s.window_id, count(*) AS hosts, sum(s.fetches)::BIGINT AS fetches, any_value(used.done) AS done
    FROM crawl_schedule s JOIN used USING (window_id) GROUP BY 1 ORDER BY 1 LIMIT 1
"""
PROGRESS = """
    SELECT count(*) FILTER (outcome IN ('ok', 'not_modified')) AS pages, count(DISTINCT host) AS hosts,
           count(changed) AS refetched, count(*) FILTER (changed) AS changed,
           (SELECT count(*) FROM promotions) AS promoted
    FROM fetches WHERE kind = 'page'
"""
SEEDED = "SELECT DISTINCT host FROM hosts WHERE event IN ('seeded', 'promoted')"
