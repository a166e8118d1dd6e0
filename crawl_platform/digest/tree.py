"""A page's tree as the parser keeps it: C structures of Lexbor's, read at their addresses.

Offsets are those of Lexbor's `lxb_dom_node_t`, `lxb_dom_element_t`, `lxb_dom_attr_t` and `lxb_dom_character_data_t`
on machines of 64 bits, as selectolax 1.0 ships them. Names are numbers: of tags, selectolax tells them; of attributes,
they are read from a document that has them all. `check` reads a small document both ways and refuses to go on if they
differ, so a release of the parser that lays out its nodes otherwise is told at once, not by wrong facts.
"""

import ctypes
from importlib.metadata import version

import numpy as np
from numpy.typing import NDArray
from selectolax.lexbor import LexborDocumentOptions, LexborHTMLParser, LexborNode

from crawl_platform.digest.memory import whole, word
from crawl_platform.machine_code import compiled

# Of every node.
NAME, NEXT, PARENT, CHILD, TYPE = 8, 40, 56, 64, 88
# Of a text: where its octets are, how many.
DATA, LENGTH = 96, 104
# Of an element, and of an attribute; its value is a pointer to octets and length.
ATTRIBUTES = 120
QUALIFIED, VALUE, FOLLOWING = 104, 112, 128
# Of a name that Lexbor doesn't know by itself: up to sixteen octets, then their number.
NAME_LENGTH = 24
ELEMENT, TEXT = 1, 3

# fmt: off
NAMES = (
    "href", "rel", "alt", "class", "id", "role", "style", "hidden",
    "src", "srcset", "name", "content", "http-equiv", "type", "hreflang", "xlink:href",
)
"""Attributes that say something. Their place here is their number."""
(
    HREF, REL, ALT, CLASS, ID, ROLE, STYLE, HIDDEN,
    SRC, SRCSET, META_NAME, CONTENT, HTTP, KIND, LANGUAGE, XLINK,
) = range(16)
# fmt: on
_MOST_NUMBERS = 256
"""Lexbor's own numbers of names are below; others are addresses."""

Numbers = NDArray[np.int64]


def _word(address: int) -> int:
    return ctypes.c_int64.from_address(address).value


def attribute_names() -> Numbers:
    """For each number of Lexbor's the place in `NAMES` (-1: none); then, for each place, two words of the name's octets
    and its length, by which it is known where it has no number.
    """
    tree = LexborHTMLParser(f"<p {' '.join(f'{name}=1' for name in NAMES)}>".encode())
    node = tree.css_first("p")
    found = np.full(_MOST_NUMBERS + 3 * len(NAMES), -1, np.int64)
    attribute = _word(node.mem_id + ATTRIBUTES) if node is not None else 0
    for place, name in enumerate(NAMES):
        if not attribute:
            raise RuntimeError(_UNKNOWN)
        number = _word(attribute + NAME)
        if 0 < number < _MOST_NUMBERS:
            found[number] = place
        octets = name.encode().ljust(16, b"\0")
        found[_MOST_NUMBERS + 3 * place :][:3] = [*np.frombuffer(octets, np.int64), len(name)]
        attribute = _word(attribute + FOLLOWING)
    return found


@compiled
def _named(name: int, names: Numbers, place: int) -> bool:
    """Whether what stands at the address `name` is the name of that place."""
    at = _MOST_NUMBERS + 3 * place
    if word(name + NAME_LENGTH) != names[at + 2] or word(name) != names[at]:
        return False
    return bool(names[at + 2] <= 8 or word(name + 8) == names[at + 1])


@compiled
def read_attributes(element: int, names: Numbers, values: Numbers) -> int:
    """Put the values of an element's attributes into `values`, by their place in `NAMES`: the address of octets and
    length, 0 if it has none such, 1 if it has no value. Returns how many it has of `NAMES`.
    """
    values[:] = 0
    count = 0
    attribute = word(element + ATTRIBUTES)
    while attribute != 0:
        number, qualified = word(attribute + NAME), word(attribute + QUALIFIED)
        place = -1
        if qualified != 0:
            # Foreign attributes: their name alone isn't the whole.
            if qualified >= _MOST_NUMBERS and _named(qualified, names, XLINK):
                place = whole(XLINK)
        elif 0 <= number < _MOST_NUMBERS:
            place = names[number]
        else:
            for other in range(len(NAMES)):
                if _named(number, names, other):
                    place = whole(other)
        if place >= 0 and values[place] == 0:
            value = word(attribute + VALUE)
            values[place] = value if value != 0 and word(value + 8) != 0 else 1
            count += 1
        attribute = word(attribute + FOLLOWING)
    return count


def parse(markup: bytes) -> LexborHTMLParser:
    """The tree of a UTF-8 page as a browser with scripts builds it, declared shadow roots in the open.

    `noscript` is raw text then: what it says to readers without scripts (redirects, mostly) is not the page.
    """
    tree = LexborHTMLParser(markup, options=LexborDocumentOptions.WO_EVENTS, scripting=True)
    if b"shadowrootmode" in markup:
        _open_shadows(tree)
    return tree


_MOST_SHADOWS = 1_000


def _open_shadows(tree: LexborHTMLParser) -> None:
    """Put the contents of declarative shadow roots in the place of their templates."""
    opened = 0
    while opened < _MOST_SHADOWS:
        templates = tree.css("template[shadowrootmode]")
        if not templates:
            return
        for template in templates:
            for fragment in template.template_fragments():
                for node in list(fragment.iter(include_text=True)):
                    template.insert_before(node, move=True)
            template.decompose(recursive=False)
        opened += len(templates)


def tag_numbers(tags: str) -> list[int]:
    """Lexbor's numbers of these tags."""
    some = LexborHTMLParser("<p>").create_node
    return [some(tag).tag_id for tag in tags.split()]


_UNKNOWN = (
    "selectolax lays out its nodes in another way than releases 1.0 do (crawl_platform/digest/tree.py reads them):"
    " install the release that requirements.lock names"
)


def check() -> None:
    """Read a document by selectolax and by address. Raises RuntimeError if they don't say the same.

    Only a node that is what it should be is followed to its strings: an address elsewhere could be anybody's.
    """
    tree = LexborHTMLParser(
        "<title>T</title><p class='a b'>one<b id=é>two</b><a href=/x>three</a><!--c--><x-y>"
    )
    release = version("selectolax").startswith("1.0.")
    if not release or tree.root is None or not (_same_place(tree.root) and _same_strings(tree.root)):
        raise RuntimeError(_UNKNOWN)


def _same_place(node: LexborNode) -> bool:
    """Whether a node, what hangs on it and what follows it are found where they are looked for."""
    at, child, following, parent = node.mem_id, node.first_child, node.next, node.parent
    same = (
        _word(at + CHILD) == (child.mem_id if child else 0)
        and _word(at + NEXT) == (following.mem_id if following else 0)
        and (parent is None or _word(at + PARENT) == parent.mem_id)
        and (_kind(at) == ELEMENT) == bool(node.is_element_node)
        and (_kind(at) == TEXT) == bool(node.is_text_node)
        and (not node.is_element_node or _word(at + NAME) == node.tag_id)
        and (not node.is_text_node or _word(at + LENGTH) == len((node.text_content or "").encode()))
    )
    return same and all(_same_place(other) for other in (child, following) if other is not None)


def _same_strings(node: LexborNode) -> bool:
    at, same = node.mem_id, True
    if node.is_element_node:
        same = _values(at) == list(node.attributes.values())
    if node.is_text_node:
        same = _string(at + DATA) == node.text_content
    return same and all(_same_strings(other) for other in (node.first_child, node.next) if other is not None)


def _kind(node: int) -> int:
    return ctypes.c_uint32.from_address(node + TYPE).value


def _string(at: int) -> str:
    return ctypes.string_at(_word(at), _word(at + 8)).decode()


def _values(element: int) -> list[str]:
    found, attribute = [], _word(element + ATTRIBUTES)
    while attribute:
        found.append(_string(_word(attribute + VALUE)))
        attribute = _word(attribute + FOLLOWING)
    return found
