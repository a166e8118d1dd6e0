"""Machine code: the parser's nodes are read as it lays them out, and what is kept is no one else's."""

import os
import shutil
from pathlib import Path

import numpy as np
import pytest
from selectolax.lexbor import LexborHTMLParser

from crawl_platform.digest import compiled, tree


def test_the_parser_lays_out_its_nodes_as_we_read_them() -> None:
    tree.check()


@pytest.mark.parametrize("offset", ["NAME", "NEXT", "PARENT", "CHILD", "TYPE", "LENGTH"])
def test_another_layout_is_refused(monkeypatch: pytest.MonkeyPatch, offset: str) -> None:
    monkeypatch.setattr(tree, offset, 48)

    with pytest.raises(RuntimeError, match=r"install the release that requirements\.lock names"):
        tree.check()


def test_another_release_of_the_parser_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tree, "version", lambda package: "1.1.0")

    with pytest.raises(RuntimeError, match=r"install the release that requirements\.lock names"):
        tree.check()


def test_attributes_are_known_by_number_or_by_name() -> None:
    parser = LexborHTMLParser("<a xlink:href=no ROLE=x srcset HREF=y role=z data-href-of-many-letters=1>")
    node, values = parser.css_first("a"), np.zeros(len(tree.NAMES), np.int64)
    assert node is not None

    assert tree.read_attributes(node.mem_id, tree.attribute_names(), values) == 4

    given = {name: value for name, value in zip(tree.NAMES, values.tolist(), strict=True) if value}
    assert set(given) == {"xlink:href", "role", "srcset", "href"}
    assert given["srcset"] == 1


def test_code_is_kept_beside_its_source_or_where_it_is_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    assert compiled.cache_folder().parent == Path(compiled.__file__).parent / "__pycache__"

    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    assert compiled.cache_folder().parent == tmp_path


def test_code_that_came_with_a_read_only_source_is_copied_to_a_folder_of_our_own(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    beside = _read_only_source(monkeypatch, tmp_path)
    (beside / "module").mkdir(parents=True)
    (beside / "module" / "code.nbi").write_text("compiled")

    own = compiled.cache_folder()

    assert own.parent == tmp_path / "tmp"
    assert (own / "module" / "code.nbi").read_text() == "compiled"
    assert own.stat().st_mode & 0o077 == 0
    assert compiled.cache_folder() == own


def test_code_in_a_folder_that_others_can_write_is_not_run(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    _read_only_source(monkeypatch, tmp_path)
    trusted = compiled.cache_folder()
    (trusted / "code.nbi").write_text("planted")
    trusted.chmod(0o777)

    own = compiled.cache_folder()

    assert own != trusted
    assert not (own / "code.nbi").exists()


def test_code_of_other_versions_is_removed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    kept = compiled.cache_folder()
    for folder in (kept, tmp_path / "machine-code-old", tmp_path / "somebody-elses"):
        folder.mkdir()

    compiled.forget_others()

    assert sorted(folder.name for folder in tmp_path.iterdir()) == sorted([kept.name, "somebody-elses"])


def _read_only_source(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A copy of the source that can't be written; returns where code beside it would be."""
    source, temporary = tmp_path / "digest", tmp_path / "tmp"
    source.mkdir()
    temporary.mkdir()
    shutil.copy(compiled.__file__, source)
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    monkeypatch.setattr(compiled, "_HERE", source)
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    writable = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: path != source and writable(path, mode))
    return source / "__pycache__" / (compiled._PREFIX + compiled._key())
