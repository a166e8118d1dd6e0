"""Machine code that is kept is the source's own, and no one else's."""

import os
import shutil
from pathlib import Path

import pytest

from crawl_platform import machine_code


def test_code_is_kept_beside_its_source_or_where_it_is_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    assert machine_code.cache_folder().parent == Path(machine_code.__file__).parent / "__pycache__"

    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    assert machine_code.cache_folder().parent == tmp_path


def test_code_that_came_with_a_read_only_source_is_copied_to_a_folder_of_our_own(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    beside = _read_only_source(monkeypatch, tmp_path)
    (beside / "module").mkdir(parents=True)
    (beside / "module" / "code.nbi").write_text("compiled")

    own = machine_code.cache_folder()

    assert own.parent == tmp_path / "tmp"
    assert (own / "module" / "code.nbi").read_text() == "compiled"
    assert own.stat().st_mode & 0o077 == 0
    assert machine_code.cache_folder() == own


def test_code_in_a_folder_that_others_can_write_is_not_run(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    _read_only_source(monkeypatch, tmp_path)
    trusted = machine_code.cache_folder()
    (trusted / "code.nbi").write_text("planted")
    trusted.chmod(0o777)

    own = machine_code.cache_folder()

    assert own != trusted
    assert not (own / "code.nbi").exists()


def test_code_of_other_versions_is_removed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    kept = machine_code.cache_folder()
    for folder in (kept, tmp_path / "machine-code-old", tmp_path / "somebody-elses"):
        folder.mkdir()

    machine_code.forget_others()

    assert sorted(folder.name for folder in tmp_path.iterdir()) == sorted([kept.name, "somebody-elses"])


def _read_only_source(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A copy of the source that can't be written; returns where code beside it would be."""
    source, temporary = tmp_path / "source", tmp_path / "tmp"
    source.mkdir()
    temporary.mkdir()
    shutil.copy(machine_code.__file__, source)
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    monkeypatch.setattr(machine_code, "_HERE", source)
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    writable = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: path != source and writable(path, mode))
    return source / "__pycache__" / (machine_code._PREFIX + machine_code._key())
