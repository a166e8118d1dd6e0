"""Machine code reads the parser's nodes as it lays them out."""

import numpy as np
import pytest
from selectolax.lexbor import LexborHTMLParser

from crawl_platform.digest import tree


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
