"""The web that `bench.crawl` is fetched from: hosts, and pages of about 140 KB that are cheap to serve.

A page is put together from sections that were compressed once (each after a full flush, so that any order of them
is one deflate stream) and from parts of its own, which go as stored blocks: title, links and a line of text. So no
two bodies are alike, and nobody but the reader pays for that. Page n of a host links to pages FEW*n+1 … FEW*n+FEW,
which nobody else names: more than a tenth of its links are new.
"""

import random
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass

from isal import isal_zlib

FEW = 7
"""Links of a page that no other page has."""
NAVIGATION, BACK, ABROAD, FOOTER = 20, 20, 6, 7
LINKS = NAVIGATION + FEW + BACK + ABROAD + FOOTER
SECTION_BYTES = 4_300
SECTIONS = 300
_GZIP_HEAD = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"
_LAST_BLOCK = b"\x03\x00"


def host_name(number: int) -> str:
    """A registrable domain for each host: nothing is shared between them but the port."""
    return f"host{number:05}.test"


def host_number(name: str) -> int:
    return int(name[4:9])


def host_address(number: int) -> str:
    return f"127.100.{number // 250}.{1 + number % 250}"


def path_of(page: int) -> str:
    return f"/section-{page % 20}/article-{page}.html" if page else "/"


def page_of(path: str) -> int | None:
    """The number of the page at `path`; None if there is none."""
    if path == "/":
        return 0
    head, _, tail = path.rpartition("/article-")
    stem = tail.removesuffix(".html")
    if not stem.isdecimal() or path != path_of(int(stem)) or not head:
        return None
    return int(stem)


@dataclass(frozen=True, slots=True)
class Piece:
    """Markup, and the same as whole deflate blocks that lean on nothing before them."""

    plain: bytes
    deflated: bytes


def _piece(plain: bytes) -> Piece:
    packer = zlib.compressobj(6, zlib.DEFLATED, -15)
    return Piece(plain, packer.compress(plain) + packer.flush(zlib.Z_FULL_FLUSH))


def _own(plain: bytes) -> Piece:
    """A stored block: nothing is compressed while others wait."""
    return Piece(plain, struct.pack("<BHH", 0, len(plain), len(plain) ^ 0xFFFF) + plain)


class Pages:
    """`size`: bytes of a body, roughly. The same for every host but for names and links."""

    def __init__(self, size: int, hosts: int, port: int) -> None:
        self._hosts, self._port = hosts, port
        chance = random.Random(1)
        words = [_word(chance) for _ in range(6_000)]
        weights = [1 / (place + 1) ** 1.3 for place in range(len(words))]
        self._words = words
        self._sections = [_piece(_section(chance, words, weights).encode()) for _ in range(SECTIONS)]
        self._head = _piece(_HEAD.encode())
        self._navigation = _piece(_navigation().encode())
        self._foot = _piece(_footer().encode())
        fixed = len(self._head.plain) + len(self._navigation.plain) + len(self._foot.plain) + 4_000
        self._per_page = max(1, (size - fixed) // SECTION_BYTES)

    def body(self, host: int, page: int) -> bytes:
        """The page, as a gzip file."""
        pieces = list(self._pieces(host, page))
        check, size = 0, 0
        for piece in pieces:
            check = isal_zlib.crc32(piece.plain, check)
            size += len(piece.plain)
        return b"".join(
            (_GZIP_HEAD, *[piece.deflated for piece in pieces], _LAST_BLOCK, struct.pack("<II", check, size))
        )

    def plain(self, host: int, page: int) -> bytes:
        """The same, not compressed."""
        return b"".join(piece.plain for piece in self._pieces(host, page))

    def _pieces(self, host: int, page: int) -> Iterator[Piece]:
        chance = (host * 1_000_003 + page) * 2_654_435_761 % (1 << 40)
        word = self._words[chance % len(self._words)]
        name = f"{word} {page} of {host_name(host)}"
        yield self._head
        yield _own(f"<title>{name}</title></head><body>".encode())
        yield self._navigation
        yield _own(f'<main id="content"><h1>{name}</h1>'.encode())
        links = self._links(host, page, chance)
        share = -(-len(links) // self._per_page)
        for place in range(self._per_page):
            chance = chance * 6_364_136_223_846_793_005 % (1 << 61) + 1
            yield self._sections[(chance >> 20) % SECTIONS]
            mine = links[place * share : (place + 1) * share]
            yield _own(
                b"".join([b'<p class="more">See ', b", ".join(mine), b" and %x.</p>" % (chance & 0xFFFFFFFF)])
            )
        yield self._foot

    def _links(self, host: int, page: int, chance: int) -> list[bytes]:
        word = self._words[(chance >> 9) % len(self._words)]
        pages = [FEW * page + 1 + number for number in range(FEW)]
        pages += [(chance >> number) % (page + 1) for number in range(BACK)]
        own = [b'<a href="%s">%s %d</a>' % (path_of(n).encode(), word.encode(), n) for n in pages]
        return own + [self._abroad((chance >> (3 * n)) + n, n < ABROAD - 2) for n in range(ABROAD)]

    def _abroad(self, chance: int, inside: bool) -> bytes:
        """To the first pages of another host, or to one that nobody has chosen."""
        if inside:
            name, path = host_name(chance % self._hosts), path_of(chance % FEW)
            return f'<a href="https://{name}:{self._port}{path}" rel="noopener">{name}</a>'.encode()
        return b'<a href="https://far%d.example/%d">elsewhere</a>' % (chance % 50_000, chance % 97)


_HEAD = (
    '<!doctype html><html lang="en"><head><meta charset="utf-8">'
    '<meta name="viewport" content="width=device-width, initial-scale=1">'
    '<link rel="stylesheet" href="/style.css"><link rel="icon" href="/icon.png">'
    + "".join(f'<meta property="og:fact{n}" content="A fact about this site">' for n in range(8))
    + "<script>"
    + "".join(f"window.setting{n}={{on:true,rate:{n * 37 % 101}}};" for n in range(60))
    + "</script>"
)


def _word(chance: random.Random) -> str:
    return "".join(
        chance.choice("bcdfghlmnprstvw") + chance.choice("aeiou") for _ in range(chance.randint(1, 4))
    )


def _section(chance: random.Random, words: list[str], weights: list[float]) -> str:
    parts = [f'<section class="part wide tone-{chance.randrange(9)}"><h2>{chance.choice(words).title()}</h2>']
    while sum(map(len, parts)) < SECTION_BYTES - 150:
        said = chance.choices(words, weights, k=30)
        parts.append(
            f'<p class="text tone"><span class="lead">{" ".join(said[:4]).title()}</span> {" ".join(said[4:18])} '
            f"<em>{said[18]}</em> {' '.join(said[19:])}.</p>"
        )
    return "".join([*parts, "</section>"])


def _navigation() -> str:
    items = "".join(
        f'<li class="item"><a href="{path_of(n)}">Section {n}</a></li>' for n in range(NAVIGATION)
    )
    return f'<header class="top"><nav aria-label="main"><ul>{items}</ul></nav></header>'


def _footer() -> str:
    items = "".join(
        f'<li><a href="{path_of(n)}" rel="nofollow">About {n}</a></li>' for n in range(1, FOOTER + 1)
    )
    return f'</main><footer class="end"><ul>{items}</ul><p>All rights reserved</p></footer></body></html>'
