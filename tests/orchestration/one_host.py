"""Work of a window at a single host, in which all groups cost the same."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from assets.schedule_work import Levels, Work


def one_host(
    host: str,
    most: int,
    template: Sequence[str],
    eligible: ArrayLike,
    reward: ArrayLike,
    *,
    fetches: ArrayLike = 100.0,
    so_far: float = 200.0,
    budget: int = 1_000,
    levels: Levels | None = None,
) -> Work:
    """`most`: fetches that its politeness allows. The first group is the whole host. None is overdue."""
    n = len(template)
    due = np.asarray(eligible, np.int64)
    return Work(
        hosts=[host],
        host_most=np.array([most]),
        host_value=np.ones(1),
        host=np.zeros(n, np.int64),
        group=np.arange(n),
        template=list(template),
        eligible=due,
        pages=due.astype(np.float64),
        overdue=np.zeros(n, np.int64),
        late=np.zeros(n),
        reward=np.asarray(reward, np.float64),
        fetches=np.broadcast_to(np.asarray(fetches, np.float64), n).copy(),
        measured=np.full(n, 100.0),
        duration=np.full(n, 100.0),
        size=np.full(n, 100.0),
        so_far=so_far,
        budget=budget,
        levels=levels,
    )
