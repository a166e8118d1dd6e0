"""Jobs about promotions that change nothing: what would be decided now, and whether a decision can be made again."""

import dagster as dg
import msgspec
from pydantic import Field

from assets.plots import markdown_table
from assets.probation import judge_promoted
from assets.promotion_decision import ALL_INPUTS, decide_promotions
from assets.promotion_replay import Replay, replay
from assets.promotion_report import promotion_report
from crawl_platform.settings import Settings
from resources.lake import LakeResource

SHOWN = 50
LONGEST = 300
"""Characters of what differs that are shown."""


class Preview(dg.Config):
    """What a decision would be with other rules; left out: as `crawl.toml` has them."""

    quota: int | None = Field(default=None, ge=0, description="Most hosts promoted.")
    min_support: int | None = Field(
        default=None, ge=0, description="Least independent sites that link to one."
    )


@dg.op(name="decide_without_writing", description="The decision that these versions of the lake give.")
def decide_without_writing(
    context: dg.OpExecutionContext,
    config: Preview,
    lake: LakeResource,
    crawl_settings: dg.ResourceParam[Settings],
) -> None:
    limits, store = crawl_settings.orchestration, lake.open()
    if config.quota is not None:
        limits = msgspec.structs.replace(limits, promotion_quota=config.quota)
    if config.min_support is not None:
        limits = msgspec.structs.replace(limits, promotion_min_support=config.min_support)
    with lake.read(*ALL_INPUTS) as reading:
        decided, judged = decide_promotions(reading, limits, repeat=False), judge_promoted(reading, limits)
        report = promotion_report(reading, decided, judged, store, preview=True)
    promoted = [decision.host for decision in decided if decision.promoted]
    context.log.info("%d hosts would be promoted: %s", len(promoted), ", ".join(promoted[:SHOWN]))
    context.add_output_metadata({"report": report, "promoted": dg.MetadataValue.json(promoted)})


@dg.job(
    name="preview_promotions",
    description="Who would be promoted now and who held, with the evidence; also with another quota. Changes nothing.",
    executor_def=dg.in_process_executor,
)
def preview_promotions() -> None:
    decide_without_writing()


class Decision(dg.Config):
    """Which decision to make again."""

    decision_id: str = Field(description="A decision_id of `promotions` or `decisions`.")


@dg.op(
    name="decide_again",
    description="Makes a run's decisions again from the versions that they were made from.",
)
def decide_again(
    context: dg.OpExecutionContext,
    config: Decision,
    lake: LakeResource,
    crawl_settings: dg.ResourceParam[Settings],
) -> None:
    made = replay(lake, config.decision_id, crawl_settings.orchestration)
    context.log.info("%d decisions made again, %d differ", made.compared, len(made.differences))
    context.add_output_metadata(
        {
            "same": not made.differences,
            "compared": made.compared,
            "differences": _differences(made),
            "inputs": dg.MetadataValue.json(made.inputs),
        }
    )
    if made.differences:
        raise dg.Failure(
            f"{len(made.differences)} of {made.compared} decisions come out otherwise now: "
            f"{made.differences[0].host} …",
            allow_retries=False,
        )


def _differences(made: Replay) -> dg.MarkdownMetadataValue:
    rows = [[d.host, d.written[:LONGEST], d.computed[:LONGEST]] for d in made.differences[:SHOWN]]
    return markdown_table(("host", "written", "computed now"), rows)


@dg.job(
    name="replay_promotion",
    description="Make a promotion's decision again from its input versions: the same, or what differs.",
    executor_def=dg.in_process_executor,
)
def replay_promotion() -> None:
    decide_again()


PROMOTION_JOBS = (preview_promotions, replay_promotion)
