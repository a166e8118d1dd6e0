"""Arrays beside the tables: whole generations or none."""

import numpy as np
import pyarrow as pa
import pytest

from crawl_platform.errors import DamagedStateError
from crawl_platform.lake import arrays
from crawl_platform.lake.arrays import Texts, current, store

VALUES = np.arange(6, dtype=np.uint32).reshape(3, 2)


def texts(*parts):
    return pa.chunked_array([list(part) for part in parts], pa.large_string())


NAMES = texts(["a", "b"])


def put(folder, values=VALUES, names=NAMES, unchanged=0):
    return store(folder, "v1", {"values": values}, {"names": Texts(names, unchanged)}, {"format": 1})


def test_what_was_stored_is_found_mapped_into_memory(tmp_path):
    put(tmp_path)

    found = current(tmp_path)

    assert found.facts == {"format": 1}
    assert isinstance(found.array("values").base, np.memmap)
    assert np.array_equal(found.array("values"), VALUES)
    assert found.texts("names").to_pylist() == ["a", "b"]


def test_no_array_is_too_small(tmp_path):
    put(tmp_path, np.zeros((0, 5)), texts())

    assert current(tmp_path).array("values").shape == (0, 5)
    assert current(tmp_path).texts("names").to_pylist() == []


def test_one_generation_is_kept_and_readers_of_the_former_go_on(tmp_path):
    put(tmp_path)
    former = current(tmp_path)
    read, names = former.array("values"), former.texts("names")

    put(tmp_path, VALUES * 2)

    assert (read.tolist(), names.to_pylist()) == (VALUES.tolist(), ["a", "b"])
    assert current(tmp_path).array("values").tolist() == (VALUES * 2).tolist()
    assert len([path for path in tmp_path.iterdir() if path.is_dir()]) == 1


@pytest.mark.parametrize("killed", ["_digest", "_store_texts"])
def test_an_update_that_is_killed_leaves_the_former_generation(tmp_path, monkeypatch, killed):
    put(tmp_path)

    def dies(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(arrays, killed, dies)
        with pytest.raises(KeyboardInterrupt):
            put(tmp_path, VALUES * 2)

    assert current(tmp_path).array("values").tolist() == VALUES.tolist()
    put(tmp_path, VALUES * 3)
    assert len([path for path in tmp_path.iterdir() if path.is_dir()]) == 1


def test_texts_that_were_there_are_linked_and_not_written_again(tmp_path):
    put(tmp_path)
    before = current(tmp_path).folder / "names" / "0.arrow"
    file = before.stat().st_ino

    put(tmp_path, names=texts(["a", "b"], ["c"]), unchanged=2)

    found = current(tmp_path)
    assert (found.folder / "names" / "0.arrow").stat().st_ino == file
    assert found.texts("names").to_pylist() == ["a", "b", "c"]


def test_texts_that_have_changed_are_written(tmp_path):
    put(tmp_path)
    put(tmp_path, names=texts(["", "b", "c"]))

    assert current(tmp_path).texts("names").to_pylist() == ["", "b", "c"]


def test_many_files_of_texts_become_one(tmp_path, monkeypatch):
    monkeypatch.setattr(arrays, "MOST_PARTS", 2)
    for length in range(1, 5):
        put(tmp_path, names=texts([str(n) for n in range(length)]), unchanged=length - 1)

    assert current(tmp_path).texts("names").to_pylist() == ["0", "1", "2", "3"]
    assert len(list((current(tmp_path).folder / "names").iterdir())) == 2


def test_damage_is_noticed(tmp_path):
    path = put(tmp_path) / "values.npy"
    path.write_bytes(path.read_bytes()[:-1] + b"\1")

    with pytest.raises(DamagedStateError):
        current(tmp_path).array("values")


def test_there_may_be_none(tmp_path):
    assert current(tmp_path / "nowhere") is None
    (tmp_path / "CURRENT").write_text("gone")
    assert current(tmp_path) is None
