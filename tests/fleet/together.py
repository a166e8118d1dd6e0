"""Scenarios side by side: a fleet that is killed, restarted and watched waits far more than it computes.

Each scenario is a function of a folder of its own, with its own web and fleet; a test waits for its own one.
Only scenarios of tests that were selected are run.
"""

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

SIDE_BY_SIDE = 4


class Together:
    """`result(name)` waits for one scenario and raises what it raised."""

    def __init__(self, running: dict[str, Future[None]]) -> None:
        self._running = running

    def result(self, name: str) -> None:
        self._running[name].result()


@contextmanager
def side_by_side(
    request: pytest.FixtureRequest, parameter: str, run: Callable[[str], None]
) -> Iterator[Together]:
    """Start `run(value)` for each value of `parameter` among the selected tests of this module."""
    calls = [getattr(item, "callspec", None) for item in request.session.items if item.path == request.path]
    names = [str(call.params[parameter]) for call in calls if call and parameter in call.params]
    with ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
        yield Together({name: pool.submit(run, name) for name in names})
        pool.shutdown(cancel_futures=True)


@contextmanager
def told(
    request: pytest.FixtureRequest,
    folders: pytest.TempPathFactory,
    stories: Mapping[str, Callable[[Path], None]],
) -> Iterator[Together]:
    """Tell those of `stories` that a `story` among the selected tests names, each in a folder of its own."""
    with side_by_side(request, "story", lambda name: stories[name](folders.mktemp(name[:20]))) as together:
        yield together
