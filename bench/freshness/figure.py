"""The policies of one report as a picture: how near each comes to one who knows every rate."""

from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

from crawl_platform.scheduling.comparison.crawl import STEP

COLOURS = ("#2b6cb0", "#1a202c", "#38a169", "#805ad5", "#dd6b20", "#d69e2e", "#c53030", "#718096")
SIZE = (10.0, 4.0)


def draw(report: dict[str, Any], file: Path) -> None:
    """The same report gives the same bytes: text stays text, and nothing is dated."""
    rows = {report["policy"]: report, **report["others"]}
    names = sorted(rows, key=lambda name: -rows[name]["paired_ratio"]["mean"])
    with matplotlib.rc_context({"svg.hashsalt": "policies", "svg.fonttype": "none", "font.size": 9}):
        figure = Figure(figsize=SIZE, layout="constrained")
        FigureCanvasSVG(figure)
        last, course = figure.subplots(1, 2, width_ratios=(1, 1.3))
        for place, name in enumerate(names):
            ratio, colour = rows[name]["paired_ratio"], COLOURS[place % len(COLOURS)]
            last.plot(ratio["by_seed"], [place] * len(ratio["by_seed"]), "|", ms=9, color=colour, alpha=0.5)
            last.plot(ratio["mean"], place, "o", color=colour)
            last.annotate(f"{ratio['mean']:.3f}", (0.02, place), va="center", color=colour)
            days = [STEP * (step + 0.5) for step in range(len(rows[name]["course"]))]
            course.plot(days, rows[name]["course"], "-", lw=1.4, color=colour, label=name)
        last.set_yticks(range(len(names)), names)
        last.invert_yaxis()
        last.set_xlim(0, 1.05)
        last.set_title("last days: mean (dot) and each seed", loc="left")
        course.set_title("by days since the start, mean of the seeds", loc="left")
        course.set_xlabel("day")
        for axes in (last, course):
            axes.spines[["top", "right"]].set_visible(False)
        course.set_ylim(0, 1.05)
        figure.suptitle(
            f"Freshness by importance, as part of the known-rate index's; seeds {report['seeds']}",
            x=0.01,
            ha="left",
        )
        figure.savefig(file, format="svg", metadata={"Date": None, "Creator": None})
