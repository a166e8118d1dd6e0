"""How often the Dagster layer looks and decides: one table per profile (DAGSTER.md, "Two profiles").

Each event and each run costs storage and CPU that the fleet could use, so a cadence is a budget. The
conditions that use these numbers are in `assets/automation.py`.
"""

from dataclasses import dataclass

from crawl_platform.settings import Orchestration


@dataclass(frozen=True)
class Cadence:
    """Seconds, except for the crons. `*_tick` is how often a sensor wakes up at most."""

    table_events_tick: int
    table_event_gap: float
    """Least time between two events of a table whose silence means that the fleet has stopped."""
    other_event_gap: float
    """The same of the other tables."""
    decisions_tick: int
    promotion_tick: int
    fastlane_tick: int
    supervision_tick: int
    continuous: bool
    """Decide whenever inputs have changed (demo), or at the crons below."""
    graph_cron: str
    schedule_cron: str
    rates_cron: str
    """Groups, change rates and the model behind cold groups."""
    policies_cron: str
    """What policies are and would have been worth."""
    content_cron: str
    values_cron: str
    """What pages are worth: until then a new URL goes by its depth."""
    quality_cron: str
    marts_cron: str
    upkeep_cron: str
    analysis_tick: int
    """How often the sensor of quality, policies, marts and content looks: these never delay a decision."""
    checks_cron: str
    """Checks of the tables that the fleet itself writes."""
    late_links: tuple[float, ...]
    """When, after a promotion, links that were under way at that moment are looked for again."""


DEMO = Cadence(
    table_events_tick=10,
    table_event_gap=15.0,
    other_event_gap=15.0,
    decisions_tick=10,
    promotion_tick=5,
    fastlane_tick=2,
    supervision_tick=10,
    continuous=True,
    graph_cron="* * * * *",
    schedule_cron="* * * * *",
    rates_cron="* * * * *",
    policies_cron="*/10 * * * *",
    content_cron="* * * * *",
    values_cron="*/2 * * * *",
    quality_cron="* * * * *",
    marts_cron="* * * * *",
    upkeep_cron="*/10 * * * *",
    analysis_tick=30,
    checks_cron="*/2 * * * *",
    late_links=(30.0, 600.0, 86_400.0),
)

PRODUCTION = Cadence(
    table_events_tick=300,
    table_event_gap=1_200.0,
    other_event_gap=3_600.0,
    decisions_tick=300,
    promotion_tick=120,
    fastlane_tick=30,
    supervision_tick=300,
    continuous=False,
    graph_cron="17 */6 * * *",
    schedule_cron="0 * * * *",
    rates_cron="41 3 * * *",
    policies_cron="11 5 * * *",
    content_cron="23 4 * * *",
    values_cron="37 */12 * * *",
    quality_cron="37 */3 * * *",
    marts_cron="37 */6 * * *",
    upkeep_cron="13 2 * * *",
    analysis_tick=900,
    checks_cron="37 */6 * * *",
    late_links=(600.0, 86_400.0),
)

CADENCES = {"demo": DEMO, "production": PRODUCTION}


def cadence_of(orchestration: Orchestration) -> Cadence:
    """The cadence of the chosen profile (settings have checked its name)."""
    return CADENCES[orchestration.profile]
