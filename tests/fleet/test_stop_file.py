"""The file of stop switches: the later word holds, and what can't be read means stop."""

import asyncio
from pathlib import Path

import pytest

from crawl_platform.admission.stops import EVERYTHING, Stops, Word
from crawl_platform.clock import ManualClock
from crawl_platform.errors import LakeError
from crawl_platform.fleet.export import exported, note_export, take_out_of_exports
from crawl_platform.fleet.stops import STOPS_NAME, Watch, read_words, signal_cells, write_word


def test_words_about_different_things_stand_side_by_side_and_the_last_about_one_holds(tmp_path: Path) -> None:
    for word in (Word(EVERYTHING, True, 1.0), Word("a.test", True, 2.0), Word(EVERYTHING, False, 3.0)):
        write_word(tmp_path, word)

    stops = Stops()
    stops.hear(read_words(tmp_path, 9.0))

    assert (stops.paused, stops.domains) == (False, ["a.test"])
    assert stops.holds("www.a.test")
    assert not stops.holds("b.test")


def test_a_word_by_one_way_is_taken_back_by_the_other(tmp_path: Path) -> None:
    stops = Stops()
    stops.hear([Word(EVERYTHING, True, 5.0)])  # by the exchange

    write_word(tmp_path, Word(EVERYTHING, False, 6.0))
    stops.hear(read_words(tmp_path, 9.0))

    assert not stops.paused


def test_a_file_that_cannot_be_read_stops_everything_until_somebody_says_otherwise(tmp_path: Path) -> None:
    (tmp_path / STOPS_NAME).write_text("pause please")
    stops = Stops()

    stops.hear(read_words(tmp_path, 5.0))
    assert stops.paused
    write_word(tmp_path, Word(EVERYTHING, False, 6.0))
    stops.hear(read_words(tmp_path, 7.0))

    assert not stops.paused


async def test_a_cell_looks_at_once_when_it_is_rung(tmp_path: Path) -> None:
    stops, changes = Stops(), []
    watch = Watch(tmp_path, stops, ManualClock(), lambda: changes.append(stops.paused))
    watch.look()
    looking = asyncio.create_task(watch.look_forever())
    write_word(tmp_path, Word(EVERYTHING, True, 1.0))

    watch.ring()
    await asyncio.sleep(0.05)

    assert changes == [True]
    looking.cancel()


def test_no_signal_goes_to_a_pid_that_a_dead_cell_left_behind(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    pulse = tmp_path / "run" / "cell-0.alive"
    pulse.write_text("1")
    clock = ManualClock(pulse.stat().st_mtime + 60.0)

    assert signal_cells(tmp_path, clock) == 0


def test_a_file_that_is_no_export_any_more_is_left_and_named(tmp_path: Path) -> None:
    path = tmp_path / "pages.warc.gz"
    path.write_bytes(b"somebody's own file")
    note_export(tmp_path, path)
    note_export(tmp_path, path)

    with pytest.raises(LakeError, match=r"pages\.warc\.gz is not a file of `crawl export`"):
        take_out_of_exports(tmp_path, lambda url: True)

    assert exported(tmp_path) == [path]
    assert path.read_bytes() == b"somebody's own file"
    assert list(tmp_path.glob(".pages*")) == []
