"""Drives the whole Dagster layer by hand on an ephemeral instance: sensors, condition ticks, runs."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any
from unittest.mock import MagicMock

import dagster as dg
import pytest

from assets import plots
from crawl_platform.clock import ManualClock, as_datetime
from crawl_platform.definitions import build_definitions
from crawl_platform.settings import Settings
from tests.orchestration.made_up_crawl import RememberingFleet


@contextmanager
def without_pictures() -> Iterator[None]:
    """Captions instead of pictures: drawing takes a third of a run's time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plots, "_figure", lambda *_: (MagicMock(), MagicMock()))
        patch.setattr(plots, "_markdown", lambda figure, caption: dg.MetadataValue.md(caption))
        yield


class Harness:
    """One crawl's definitions and a Dagster instance. The clock is the crawl's; Dagster's own event times
    are real, so condition ticks are evaluated at `real now`, moved on by hand for crons."""

    def __init__(
        self, settings: Settings, clock: ManualClock, fleet: RememberingFleet, instance: dg.DagsterInstance
    ) -> None:
        self.clock = clock
        self.fleet = fleet
        self.instance = instance
        self.overrides = {"fleet": fleet, "clock": clock}
        self.definitions = build_definitions(self.overrides, settings)
        self._repository = self.definitions.get_repository_def()
        self.cursors: dict[str, str | None] = {}
        self._condition_cursor: Any = None
        self._tick_time = datetime.now(UTC)

    def sense(self, name: str) -> dg.SensorResult:
        """One tick of a sensor, carrying on from its own cursor; its events reach the instance."""
        sensor = self._repository.get_sensor_def(name)
        with dg.build_sensor_context(
            instance=self.instance,
            cursor=self.cursors.get(name),
            repository_def=self._repository,
            resources=self._repository.get_top_level_resources(),
        ) as context:
            result = sensor(context)
        if isinstance(result, dg.SensorResult):
            if result.cursor is not None:
                self.cursors[name] = result.cursor
            for event in result.asset_events:
                self.instance.report_runless_asset_event(event)
            return result
        return dg.SensorResult(skip_reason=result)

    def observe(self) -> list[str]:
        """Report new table versions; names of the tables that had one."""
        return [event.asset_key.to_user_string() for event in self.sense("table_events").asset_events]

    def tick(self, later: timedelta = timedelta(0)) -> set[str]:
        """One tick of all automation conditions, `later` than the last; names of the assets requested."""
        self._tick_time = max(self._tick_time, datetime.now(UTC)) + later
        result = dg.evaluate_automation_conditions(
            self.definitions,
            self.instance,
            asset_selection=dg.AssetSelection.all() - dg.AssetSelection.groups("fleet"),
            cursor=self._condition_cursor,
            evaluation_time=self._tick_time,
        )
        self._condition_cursor = result.cursor
        return {r.key.to_user_string() for r in result.results if not r.true_subset.is_empty}

    def execute(self, *names: str, fails: bool = False) -> dg.ExecuteInProcessResult:
        """Run these assets together."""
        job = self.definitions.resolve_implicit_global_asset_job_def()
        result = job.execute_in_process(
            instance=self.instance,
            asset_selection=[dg.AssetKey.from_user_string(n) for n in names],
            raise_on_error=not fails,
            run_config={"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}},
        )
        assert result.success is not fails
        return result

    def pretend(self, *names: str, failed: str = "") -> None:
        """As if these assets had been materialized and their checks had passed, all but the one `failed`."""
        checks = self.definitions.resolve_asset_graph().asset_check_keys
        for name in names:
            self.instance.report_runless_asset_event(dg.AssetMaterialization(name))
            for check in sorted(c for c in checks if c.asset_key == dg.AssetKey(name)):
                self.instance.report_runless_asset_event(
                    dg.AssetCheckEvaluation(
                        asset_key=check.asset_key,
                        check_name=check.name,
                        passed=check.name != failed,
                        blocking=True,
                    )
                )

    def decide(self) -> dg.ExecuteInProcessResult:
        """What one decision run does."""
        return self.execute("link_graph", "host_ranks", "related_hosts", "promotions")

    def now(self) -> datetime:
        return as_datetime(self.clock.now())
