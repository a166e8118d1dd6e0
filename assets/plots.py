"""Small pictures for people who look rather than read, as PNG inside markdown metadata.

Drawn with matplotlib's object interface: no global figure, no window. Kept small (2 to 20 KB),
since they are stored with every event.
"""

import base64
import io
from collections.abc import Mapping, Sequence, Set
from typing import TYPE_CHECKING, Any

import dagster as dg
import numpy as np
from numpy.typing import ArrayLike

from crawl_platform.graph.neighbourhood import Neighbourhood

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SIZE = (6.4, 2.8)
DPI = 90
TONES = 64
"""Tones in a picture: its colours and their blends with white."""
COLOURS = ("#2b6cb0", "#dd6b20", "#38a169", "#718096")


def _figure(title: str, x: str, y: str) -> tuple["Figure", "Axes"]:
    # Imported here: it takes a second, and the process that only serves definitions never draws.
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=SIZE, dpi=DPI)
    FigureCanvasAgg(figure)
    # Fixed margins: an automatic layout draws everything twice.
    axes = figure.add_axes((0.11, 0.18, 0.86, 0.7))
    axes.minorticks_off()
    axes.set_title(title, fontsize=10, loc="left")
    axes.set_xlabel(x, fontsize=9)
    axes.set_ylabel(y, fontsize=9)
    axes.tick_params(labelsize=8)
    axes.spines[["top", "right"]].set_visible(False)
    return figure, axes


def _markdown(figure: "Figure", caption: str) -> dg.MarkdownMetadataValue:
    # Imported here like matplotlib, which brings it.
    from PIL import Image

    drawn, small = io.BytesIO(), io.BytesIO()
    figure.savefig(drawn, format="png", metadata={"Software": None})
    # A palette makes a picture a quarter as large, and nobody sees it: an octree keeps the colours of small spots.
    palette = (
        Image.open(drawn).convert("RGB").quantize(TONES, Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE)
    )
    palette.save(small, "PNG", optimize=True)
    encoded = base64.b64encode(small.getvalue()).decode()
    return dg.MetadataValue.md(f"![{caption}](data:image/png;base64,{encoded})")


MOST_POINTS = 2_000
"""Drawn of a curve: more is the same picture."""


def rank_curve(
    title: str,
    series: Mapping[str, ArrayLike],
    marks: Mapping[str, float],
    *,
    of: str = "host",
    y: str = "trust",
) -> dg.MarkdownMetadataValue:
    """Values `y` of each series, in falling order on log scales, with lines at `marks`. `of`: what has these values."""
    figure, axes = _figure(title, f"{of}, best first", y)
    points = 0
    for colour, (name, values) in zip(COLOURS, series.items(), strict=False):
        ordered = np.sort(np.asarray(values, float))[::-1]
        ordered = ordered[ordered > 0]
        points += len(ordered)
        place = np.unique(np.geomspace(1, max(len(ordered), 1), MOST_POINTS).astype(int))[: len(ordered)]
        axes.plot(place, ordered[place - 1], ".-", ms=4, lw=1, color=colour, label=name)
    for name, level in marks.items():
        axes.axhline(level, color="#a0aec0", lw=1, ls="--", label=name)
    if points:
        axes.set_xscale("log")
        axes.set_yscale("log")
    axes.minorticks_off()
    axes.legend(fontsize=8, frameon=False)
    return _markdown(figure, title)


def trend(title: str, y: str, hours: ArrayLike, series: Mapping[str, ArrayLike]) -> dg.MarkdownMetadataValue:
    """Lines over time; `hours` (negative: ago) is shared by all series, which may have gaps (NaN)."""
    figure, axes = _figure(title, "hours ago", y)
    for colour, (name, values) in zip(COLOURS, series.items(), strict=False):
        axes.plot(
            -np.asarray(hours, float), np.asarray(values, float), ".-", ms=3, lw=1, color=colour, label=name
        )
    axes.invert_xaxis()
    axes.legend(fontsize=8, frameon=False)
    return _markdown(figure, title)


def histogram(title: str, x: str, values: ArrayLike, of: str = "hosts") -> dg.MarkdownMetadataValue:
    """How many hosts, or things `of` another kind, have how much of something, in bins of powers of two."""
    figure, axes = _figure(title, x, of)
    positive = np.asarray(values, float)
    top = max(1, int(np.ceil(np.log2(max(1.0, positive.max(initial=1.0))))) + 1)
    axes.hist(positive, bins=[2.0**k for k in range(top + 1)], color=COLOURS[0], rwidth=0.9)
    axes.set_xscale("log", base=2)
    return _markdown(figure, title)


def ranges(
    title: str, x: str, y: str, at: ArrayLike, middle: ArrayLike, low: ArrayLike, high: ArrayLike
) -> dg.MarkdownMetadataValue:
    """Values with their intervals over a count, on log scales; a count of 0 stands left of 1."""
    figure, axes = _figure(title, x, y)
    place, value = np.maximum(np.asarray(at, float), 0.5), np.asarray(middle, float)
    below, above = np.asarray(low, float), np.asarray(high, float)
    axes.vlines(place, np.maximum(below, value / 1e3), above, color=COLOURS[3], lw=0.6, alpha=0.5)
    axes.plot(place, value, ".", ms=4, color=COLOURS[0])
    if len(value):
        axes.set_xscale("log")
        axes.set_yscale("log")
    axes.minorticks_off()
    return _markdown(figure, title)


def bars(
    title: str, x: str, names: Sequence[str], parts: Mapping[str, ArrayLike]
) -> dg.MarkdownMetadataValue:
    """Stacked horizontal bars, one per name, the first on top."""
    figure, axes = _figure(title, x, "")
    height = max(SIZE[1], 0.9 + 0.22 * len(names))
    figure.set_figheight(height)
    axes.set_position((0.3, 0.5 / height, 0.66, 1 - 0.85 / height))
    left = np.zeros(len(names))
    for colour, (label, values) in zip(COLOURS, parts.items(), strict=False):
        width = np.asarray(values, float)
        axes.barh(range(len(names)), width, left=left, color=colour, label=label)
        left += width
    axes.set_yticks(range(len(names)), names, fontsize=8)
    axes.invert_yaxis()
    axes.legend(fontsize=8, frameon=False, loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=2)
    return _markdown(figure, title)


def spans(
    title: str, x: str, names: Sequence[str], series: Mapping[str, Sequence[ArrayLike]]
) -> dg.MarkdownMetadataValue:
    """A dot and its range per name, the first name on top; each of `series` has (middle, low, high)."""
    figure, axes = _figure(title, x, "")
    height = max(SIZE[1], 0.9 + 0.26 * len(names))
    figure.set_figheight(height)
    axes.set_position((0.26, 0.5 / height, 0.7, 1 - 0.85 / height))
    for number, (colour, (label, values)) in enumerate(zip(COLOURS, series.items(), strict=False)):
        middle, low, high = (np.asarray(value, float) for value in values)
        place = np.arange(len(names)) + 0.24 * (number - (len(series) - 1) / 2)
        axes.hlines(place, low, high, color=colour, lw=1.6, alpha=0.6)
        axes.plot(middle, place, "o", ms=4, color=colour, label=label)
    axes.set_yticks(range(len(names)), names, fontsize=8)
    axes.invert_yaxis()
    axes.legend(fontsize=8, frameon=False)
    return _markdown(figure, title)


def against(
    title: str, x: str, y: str, expected: ArrayLike, found: ArrayLike, within: ArrayLike
) -> dg.MarkdownMetadataValue:
    """What was found over what was expected, both in [0, 1], beside the diagonal; `within`: how far chance moves it."""
    figure, axes = _figure(title, x, y)
    thought, seen, chance = (np.asarray(value, float) for value in (expected, found, within))
    axes.plot([0, 1], [0, 1], "--", lw=1, color="#a0aec0")
    axes.vlines(
        thought, np.clip(seen - chance, 0, 1), np.clip(seen + chance, 0, 1), color=COLOURS[3], lw=1, alpha=0.6
    )
    axes.plot(thought, seen, ".-", ms=6, lw=1, color=COLOURS[0])
    axes.set_xlim(0, 1)
    axes.set_ylim(0, 1)
    return _markdown(figure, title)


STATE_COLOURS = {
    "trusted seed": "#2b6cb0",
    "promoted before": "#38a169",
    "horizon": "#a0aec0",
    "excluded": "#c53030",
}
CENTRE_COLOUR = "#dd6b20"
MAP_SIZE = (8.0, 5.2)
LONGEST_NAME = 21


def network(title: str, around: Neighbourhood, states: Mapping[str, str]) -> dg.MarkdownMetadataValue:
    """A host and what stands around it; `states` has a key of `STATE_COLOURS` for each host."""
    figure, axes = _figure(title, "", "")
    figure.set_size_inches(MAP_SIZE)
    axes.set_position((0.01, 0.06, 0.98, 0.86))
    axes.set_axis_off()
    axes.set_xlim(-4.35, 4.35)
    axes.set_ylim(-2.35, 2.35)
    for src, dst in around.links:
        _arrow(axes, around.places[src], around.places[dst], dst == around.centre)
    for one, other in around.kin:
        axes.plot(
            *zip(around.places[one], around.places[other], strict=True),
            ls=":",
            lw=1.4,
            color="#c53030",
            zorder=2,
        )
    for host, (x, y) in around.places.items():
        centre = host == around.centre
        colour = CENTRE_COLOUR if centre else STATE_COLOURS[states[host]]
        axes.plot(x, y, "o", ms=13 if centre else 8, color=colour, mec="white", mew=1.2, zorder=3)
        _name(axes, host, x, y, around.rings[host])
    _legend(axes, {states[host] for host in around.places if host != around.centre}, bool(around.kin))
    return _markdown(figure, title)


def _arrow(axes: "Axes", src: tuple[float, float], dst: tuple[float, float], supports: bool) -> None:
    style = (
        {"color": "#2b6cb0", "lw": 1.4, "alpha": 0.9}
        if supports
        else {"color": "#a0aec0", "lw": 0.6, "alpha": 0.7}
    )
    shape = {
        "arrowstyle": "-|>",
        "shrinkA": 4,
        "shrinkB": 7 if supports else 5,
        "mutation_scale": 9 if supports else 6,
    }
    axes.annotate("", dst, src, arrowprops={**style, **shape}, zorder=1)


def _name(axes: "Axes", host: str, x: float, y: float, ring: int) -> None:
    """Outside the ring, away from its middle, on a ground that keeps it readable over lines."""
    shown = host if len(host) <= LONGEST_NAME else f"{host[: LONGEST_NAME - 9]}…{host[-8:]}"
    side = "center" if abs(x) < 0.25 else "left" if x > 0 else "right"
    shift = (
        (0.0, -0.24)
        if ring == 0
        else (0.0, 0.17 if y > 0 else -0.17)
        if side == "center"
        else (0.11 if x > 0 else -0.11, 0.0)
    )
    ground = {"boxstyle": "round,pad=0.1", "fc": "white", "ec": "none", "alpha": 0.75}
    weight = "bold" if ring == 0 else "normal"
    axes.text(
        x + shift[0],
        y + shift[1],
        shown,
        ha=side,
        va="center",
        fontsize=7.5,
        weight=weight,
        bbox=ground,
        zorder=4,
    )


def _legend(axes: "Axes", states: Set[str], kin: bool) -> None:
    dot: dict[str, Any] = {"marker": "o", "ls": "none", "ms": 7}
    axes.plot([], [], color=CENTRE_COLOUR, label="this host", **dot)
    for state, colour in STATE_COLOURS.items():
        if state in states:
            axes.plot([], [], color=colour, label=state, **dot)
    if kin:
        axes.plot([], [], ls=":", lw=1.4, color="#c53030", label="belong together")
    axes.legend(
        fontsize=8, frameon=False, loc="upper center", bbox_to_anchor=(0.5, 0.03), ncols=6, handletextpad=0.3
    )


def markdown_table(header: Sequence[str], rows: Sequence[Sequence[object]]) -> dg.MarkdownMetadataValue:
    """A markdown table; says so when there is nothing to show."""
    if not rows:
        return dg.MetadataValue.md("*none this time*")
    lines = ["| " + " | ".join(header) + " |", "|" + " --- |" * len(header)]
    lines += ["| " + " | ".join(str(cell).replace("|", "\\|") for cell in row) + " |" for row in rows]
    return dg.MetadataValue.md("\n".join(lines))
