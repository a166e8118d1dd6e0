"""Small pictures for people who look rather than read, as PNG inside markdown metadata.

Drawn with matplotlib's object interface: no global figure, no window. Kept small (2 to 20 KB),
since they are stored with every event.
"""

import base64
import io
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import dagster as dg
import numpy as np
from numpy.typing import ArrayLike

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SIZE = (6.4, 2.8)
DPI = 90
TONES = 32
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
    # A palette makes a picture a quarter as large, and nobody sees the difference.
    palette = Image.open(drawn).convert("RGB").quantize(TONES, dither=Image.Dither.NONE)
    palette.save(small, "PNG", optimize=True)
    encoded = base64.b64encode(small.getvalue()).decode()
    return dg.MetadataValue.md(f"![{caption}](data:image/png;base64,{encoded})")


def rank_curve(
    title: str, series: Mapping[str, ArrayLike], marks: Mapping[str, float]
) -> dg.MarkdownMetadataValue:
    """Values of each series in falling order on log scales, with horizontal lines at `marks`."""
    figure, axes = _figure(title, "host, best first", "trust")
    points = 0
    for colour, (name, values) in zip(COLOURS, series.items(), strict=False):
        ordered = np.sort(np.asarray(values, float))[::-1]
        ordered = ordered[ordered > 0]
        points += len(ordered)
        axes.plot(np.arange(1, len(ordered) + 1), ordered, ".-", ms=4, lw=1, color=colour, label=name)
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


def markdown_table(header: Sequence[str], rows: Sequence[Sequence[object]]) -> dg.MarkdownMetadataValue:
    """A markdown table; says so when there is nothing to show."""
    if not rows:
        return dg.MetadataValue.md("*none this time*")
    lines = ["| " + " | ".join(header) + " |", "|" + " --- |" * len(header)]
    lines += ["| " + " | ".join(str(cell).replace("|", "\\|") for cell in row) + " |" for row in rows]
    return dg.MetadataValue.md("\n".join(lines))
