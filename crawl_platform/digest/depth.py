"""A bound on nesting, because HTML tree construction walks the open elements at every tag.

Fifty thousand nested `div`s fit into 250 KB and cost a parser seconds. Browsers stop nesting at 512; we cut
the body where it nests deeper than `MAX_DEPTH`. Only bodies with very many tags are looked at: below
`TAGS_UNWATCHED` the worst that can happen is a tenth of a second.
"""

import re
from collections import Counter

MAX_DEPTH = 1_000
TAGS_UNWATCHED = 8_000
_tags = re.compile(rb"<(/?)([a-zA-Z][^\s/>]{0,20})").finditer
# Void elements, and those that the next of their kind closes.
_FLAT = frozenset(
    b"area base br col embed hr img input link meta source track wbr p li dt dd tr td th option thead tbody".split()
)


def bounded(body: bytes) -> bytes:
    """`body`, cut before the tag that nests deeper than `MAX_DEPTH` (estimated by counting per tag name)."""
    if body.count(b"<") <= TAGS_UNWATCHED:
        return body
    opened: Counter[bytes] = Counter()
    depth = 0
    for tag in _tags(body):
        name = tag[2].lower()
        if name in _FLAT:
            continue
        if not tag[1]:
            opened[name] += 1
            depth += 1
            if depth > MAX_DEPTH:
                return body[: tag.start()]
        elif opened[name]:
            opened[name] -= 1
            depth -= 1
    return body
