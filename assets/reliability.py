"""How reliable the cells' expectations of change are, as `change_rates` shows and checks it."""

from typing import Any

import dagster as dg
import numpy as np
import pyarrow as pa

from assets.plots import against, markdown_table
from crawl_platform.quality.reliability import Reliability, reliability

TENTH_OFF = 0.1
"""How far the share of changes in a tenth may lie from what was expected there, chance apart."""


def of_predictions(predicted: pa.Table) -> Reliability:
    """`predicted`: what was believed (`chance`), and whether a change was found (`changed`)."""
    changed = predicted["changed"].to_numpy(zero_copy_only=False).astype(bool)
    return reliability(predicted["chance"].to_numpy(), changed)


def reliability_summary(found: Reliability) -> dict[str, Any]:
    """Expected beside realised change by tenths of the probability, as a table and a picture."""
    seen = np.flatnonzero(found.checks)
    if not len(seen):
        return {"reliability": markdown_table(("expected",), [])}
    table = [
        (f"{found.predicted[b]:.3f}", f"{found.realised[b]:.3f}", f"± {found.chance[b]:.3f}", found.checks[b])
        for b in seen
    ]
    columns = (found.predicted[seen], found.realised[seen], found.chance[seen])
    return {
        "brier_score": found.brier,
        "brier_score_of_the_mean": found.brier_of_mean,
        "calibration_error": found.error,
        "reliability": markdown_table(("expected", "found", "by chance", "checks"), table),
        "reliability_diagram": against(
            "Changes found over changes expected", "probability as believed", "share found", *columns
        ),
    }


def reliable(found: Reliability) -> dg.AssetCheckResult:
    named = [
        f"{found.realised[b]:.0%} of {found.checks[b]} where {found.predicted[b]:.0%} were expected"
        for b in np.flatnonzero(found.off(TENTH_OFF))
    ]
    return dg.AssetCheckResult(
        check_name="reliable",
        passed=not named,
        severity=dg.AssetCheckSeverity.WARN,
        description="; ".join(named) if found.checks.sum() else "No page was fetched twice yet.",
        metadata={"tenths_off": len(named)},
    )
