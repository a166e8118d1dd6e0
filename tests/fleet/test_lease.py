"""Who may commit: one at a time, the next one when the last has ended or stands still."""

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from crawl_platform.clock import ManualClock
from crawl_platform.errors import OwnershipLostError
from crawl_platform.fleet.lease import Lease, Predecessor

LIFE = 0.04


class Bucket:
    """One key; time passes with each look at it."""

    def __init__(self, clock: ManualClock) -> None:
        self.clock = clock
        self.value, self.revision, self.looks = b"", 0, 0

    async def get(self, _bucket: str, _key: str) -> tuple[bytes, int] | None:
        self.looks += 1
        self.clock.advance(LIFE / 4)
        return (self.value, self.revision) if self.revision else None

    async def swap(self, _bucket: str, _key: str, value: bytes, revision: int) -> int:
        if revision != self.revision:
            raise OwnershipLostError("taken")
        self.value, self.revision = value, self.revision + 1
        return self.revision


class Scene:
    def __init__(self) -> None:
        self.clock = ManualClock()
        self.bucket = Bucket(self.clock)

    def lease(self, holder: str) -> Lease:
        return Lease(self.bucket, "committer", holder, self.clock, LIFE)  # type: ignore[arg-type]


@pytest.fixture
async def scene() -> Scene:
    """`first` has the lease."""
    made = Scene()
    await made.lease("first").acquire()
    made.bucket.looks = 0
    return made


async def test_whoever_stands_still_for_a_life_is_taken_over_and_told_so(scene: Scene) -> None:
    first = scene.lease("first")
    first._revision = scene.bucket.revision
    await scene.lease("second").acquire()

    assert scene.bucket.value == b"second"
    assert scene.bucket.looks >= 4, "watched for a whole life"
    scene.clock.advance(LIFE)
    with pytest.raises(OwnershipLostError):
        await first.renew()


async def test_whoever_renews_keeps_it(scene: Scene) -> None:
    first = scene.lease("first")
    first._revision = scene.bucket.revision
    waiting = asyncio.create_task(scene.lease("second").acquire())
    for _ in range(20):
        scene.clock.advance(LIFE)
        await first.renew()
        await asyncio.sleep(LIFE / 8)

    assert not waiting.done()
    await first.release()
    await asyncio.wait_for(waiting, 5.0)


async def test_a_holder_that_is_known_to_be_dead_is_not_watched(scene: Scene) -> None:
    await scene.lease("second").acquire(ended="first")

    assert (scene.bucket.value, scene.bucket.looks) == (b"second", 1)


@pytest.mark.parametrize("ended", ["", "somebody else"])
async def test_another_holder_is_watched_all_the_same(scene: Scene, ended: str) -> None:
    await scene.lease("second").acquire(ended=ended)

    assert scene.bucket.looks >= 4


# who is known to be dead

HOLDS = """
import sys, time
from pathlib import Path
from crawl_platform.fleet.lease import Predecessor
mine = Predecessor(Path(sys.argv[1]))
mine.succeeded_by("killed")
print("held", flush=True)
time.sleep(20)
"""


def test_only_a_process_that_has_ended_is_known_to_be_dead(tmp_path: Path) -> None:
    path = tmp_path / "run" / "committer.holder"
    with Predecessor(path) as nobody:
        assert nobody.ended == ""
    with subprocess.Popen([sys.executable, "-c", HOLDS, str(path)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()

        with Predecessor(path) as while_it_lives:
            assert while_it_lives.ended == ""
            while_it_lives.succeeded_by("me")
        os.kill(process.pid, signal.SIGKILL)
        process.wait()

    with Predecessor(path) as afterwards:
        assert afterwards.ended == "killed", "and whoever had no lock has written nothing"
        afterwards.succeeded_by("next")
    with Predecessor(path) as later:
        assert later.ended == "next"
