"""Pictures of a promotion report: hosts compared with the horizon, and all their neighbourhoods on one sheet.

Small multiples: many hosts drawn alike, so that the odd one catches the eye. Each picture is one pair of axes, since
twenty of them would take seconds.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import dagster as dg
import numpy as np
from numpy.typing import ArrayLike, NDArray

from assets import plots
from crawl_platform.graph.neighbourhood import Neighbourhood

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WIDE = 9.0
ROW = 0.26
"""Inches per host."""
CELL = (1.8, 1.25)
"""Inches of one small map."""
ACROSS = 5
GREY, LINE = "#a0aec0", "#c53030"


class Strip(NamedTuple):
    """One column: a measure of all hosts of the horizon, of the promoted ones, and where the line is (None: there is
    none). `log`: on a log scale."""

    title: str
    horizon: ArrayLike
    promoted: ArrayLike
    line: float | None = None
    log: bool = True


def comparison(title: str, hosts: Sequence[str], strips: Sequence[Strip]) -> dg.MarkdownMetadataValue:
    """A row per host, a column per measure: its dot beside where the horizon's hosts lie (grey: 10 to 90 % of them, the
    tick is the median), and the line that it has to pass."""
    figure, axes = plots._figure(title, "", "")
    height = 0.8 + ROW * len(hosts)
    figure.set_size_inches((WIDE, height))
    axes.set_position((0.2, 0.05 / height, 0.79, 1 - 0.4 / height))
    axes.set_title(title, fontsize=10, loc="left", x=-0.24)
    axes.set_axis_off()
    axes.set_xlim(0, len(strips))
    axes.set_ylim(len(hosts) - 0.5, -1.4)
    rows = np.arange(len(hosts))
    for column, strip in enumerate(strips):
        _strip(axes, column, strip, rows)
    for row, host in enumerate(hosts):
        axes.text(-0.03, row, _short(host), ha="right", va="center", fontsize=8)
    return plots._markdown(figure, title)


def _strip(axes: "Axes", column: int, strip: Strip, rows: NDArray[np.int_]) -> None:
    place = _Places(strip)
    left, low, middle, high, right = (column + place(value) for value in place.levels)
    axes.text(column + 0.45, -0.9, strip.title, ha="center", va="center", fontsize=8.5)
    axes.hlines(rows, left, right, color=GREY, lw=0.6)
    axes.hlines(rows, low, high, color=GREY, lw=5, alpha=0.45)
    axes.vlines(np.full(len(rows), middle), rows - 0.22, rows + 0.22, color=GREY, lw=1.2)
    if strip.line is not None:
        axes.vlines(column + place(strip.line), -0.5, len(rows) - 0.5, color=LINE, lw=0.9, ls=":")
    axes.plot(column + place(np.asarray(strip.promoted, float)), rows, "o", ms=5, color=plots.CENTRE_COLOUR)


class _Places:
    """Where a value stands in a column that is 0.9 wide."""

    def __init__(self, strip: Strip) -> None:
        self._log = strip.log
        known = np.asarray(strip.horizon, float)
        shown = np.concatenate([known, np.asarray(strip.promoted, float), [strip.line] if strip.line else []])
        shown = shown[np.isfinite(shown) & ((shown > 0) | (not strip.log))]
        self._floor = float(shown.min()) if len(shown) else 1.0
        ends = self._scaled(np.array([self._floor, shown.max() if len(shown) else 1.0]))
        self._least, self._width = float(ends[0]), max(float(ends[1] - ends[0]), 1e-9)
        quantiles = np.quantile(known, [0.0, 0.1, 0.5, 0.9, 1.0]) if len(known) else np.full(5, self._floor)
        self.levels = [float(level) for level in quantiles]

    def _scaled(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.log(np.maximum(values, self._floor)) if self._log else values

    def __call__(self, values: ArrayLike) -> NDArray[np.float64]:
        place = (self._scaled(np.asarray(values, float)) - self._least) / self._width
        return np.asarray(0.04 + 0.82 * np.clip(place, 0.0, 1.0))


def sheet(
    title: str, around: Sequence[Neighbourhood], states: Sequence[Mapping[str, str]]
) -> dg.MarkdownMetadataValue:
    """The neighbourhood of each host, small and without names but its own."""
    figure, axes = plots._figure(title, "", "")
    across = min(ACROSS, max(len(around), 1))
    down = -(-len(around) // across)
    height = CELL[1] * down + 0.7
    figure.set_size_inches((CELL[0] * across, height))
    axes.set_position((0.0, 0.3 / height, 1.0, 1 - 0.6 / height))
    axes.set_axis_off()
    axes.set_xlim(-0.5, across - 0.5)
    axes.set_ylim(down - 0.4, -0.6)
    for number, (one, known) in enumerate(zip(around, states, strict=True)):
        _small_map(axes, one, known, number % across, number // across)
    plots._legend(axes, {s for known in states for s in known.values()}, any(one.kin for one in around))
    return plots._markdown(figure, title)


def _small_map(axes: "Axes", around: Neighbourhood, states: Mapping[str, str], column: int, row: int) -> None:
    # Imported here like all of matplotlib (`plots`).
    from matplotlib.collections import LineCollection

    places = {host: (column + x / 7.0, row - y / 5.6) for host, (x, y) in around.places.items()}
    supports = [dst == around.centre for _, dst in around.links]
    axes.add_collection(
        LineCollection(
            [(places[src], places[dst]) for src, dst in around.links],
            colors=["#2b6cb0" if yes else GREY for yes in supports],
            linewidths=[0.9 if yes else 0.35 for yes in supports], alpha=0.7, zorder=1,
        )
    )  # fmt: skip
    kin = [(places[one], places[other]) for one, other in around.kin]
    axes.add_collection(LineCollection(kin, colors=LINE, linewidths=0.9, linestyles=":", zorder=2))
    others = [host for host in places if host != around.centre]
    axes.scatter(
        [places[host][0] for host in others], [places[host][1] for host in others], s=9,
        c=[plots.STATE_COLOURS[states[host]] for host in others], zorder=3,
    )  # fmt: skip
    axes.plot(*places[around.centre], "o", ms=5.5, color=plots.CENTRE_COLOUR, mec="white", mew=0.8, zorder=4)
    axes.text(column, row - 0.5, _short(around.centre), ha="center", va="center", fontsize=7.5, weight="bold")


def _short(host: str) -> str:
    return host if len(host) <= 26 else f"{host[:15]}…{host[-10:]}"
