"""URL groups: pages of one host whose paths look alike, told from the URL's text.

A template is the path with what varies taken out: `/story/12-some-words` is `/story/*`, `/p/7.html?page=2`
is `/p/#.html?page`. Some segments show by themselves that they vary: numbers, hashes, slugs. Whether a plain
word does is learnt per host: where more than `MOST_WORDS` different words have been met at one position, it is
a `*` from then on. What is learnt is bounded by `MOST_POSITIONS`, and beyond that every word counts as varying.
So a URL that was never seen has a group, and a host that invents names has few groups.

    position = the template so far, and what follows: a folder, the last segment, or the names in the query
    shapes   = position → (the position that it hangs on, the words met there …); without words it is a `*`
"""

import re
from functools import lru_cache
from typing import NamedTuple, Self

import xxhash

Shapes = dict[int, tuple[int, ...]]
"""What a host's URLs have taught; positions and words are 32-bit hashes. Never changed in place."""

MOST_WORDS = 8
"""Words at a position up to which each makes a group of its own: sections of a site, not names of things."""
MOST_POSITIONS = 48
"""Positions learnt per host, each of at most 5 · (2 + MOST_WORDS) bytes: 2.4 KB."""
DEEPEST = 6
"""Segments looked at; what lies deeper is `**`."""
LONGEST_WORD = 24
"""Letters of the longest word that is not taken for a slug."""
LONGEST_KEPT = 16
"""Letters of the longest segment whose parts are kept at hand; longer ones hardly come twice."""
LONGEST_SEGMENT = 64
"""Longer ones are `*` without a look."""
EXTENSIONS = frozenset(
    (
        "asp", "aspx", "atom", "cfm", "cgi", "csv", "doc", "docx", "epub", "htm", "html", "js", "json", "jsp",
        "md", "pdf", "php", "ppt", "pptx", "ps", "rss", "rst", "shtml", "txt", "xhtml", "xls", "xlsx", "xml",
    )
)  # fmt: skip

_NUMBER = re.compile(r"[.,:_-]*\d[\d.,:_-]*")
_HEX = re.compile(r"(?=.*\d)[0-9a-fA-F-]{8,}")
_NUMBERED = re.compile(r"([A-Za-z]+[-_]?)\d+")
_WORD = re.compile(r"[^\d%*?&-]+(?:-[^\d%*?&-]+)?")

_News = list[tuple[int, int, int]]
"""(position, the position that it hangs on, word) for words that `shapes` doesn't have."""


class Folders(dict[str, "_Folder"]):
    """What folders of one host have read like, to be reused while its shapes stay the same."""

    shapes: Shapes | None = None

    def under(self, shapes: Shapes) -> Self:
        """Itself, without what was read under other shapes."""
        if shapes is not self.shapes:
            self.clear()
            self.shapes = shapes
        return self


def template_of(url: str, shapes: Shapes) -> str:
    """The template of a canonical URL of the host that `shapes` are of."""
    return _read(url, shapes, {})[0]


def learn(url: str, shapes: Shapes, folders: Folders | None = None) -> tuple[Shapes, str]:
    """What `shapes` become once `url` was met (the same object if it teaches nothing), and its template. `folders`: of
    the URLs of that host which were learnt before it."""
    template, news = _read(url, shapes, {} if folders is None else folders.under(shapes))
    while news:
        shapes = _with(shapes, news)
        template, news = _read(url, shapes, {})
    return shapes, template


def group_id(host: str, template: str) -> int:
    """Number of a group, unique within its host: 1 to 2^31 − 1, the same everywhere and always."""
    return xxhash.xxh32_intdigest(f"{host}\0{template}".encode()) & 0x7FFFFFFF or 1


@lru_cache(16_384)
def _hash(text: str) -> int:
    return xxhash.xxh32_intdigest(text.encode())


def _read(url: str, shapes: Shapes, folders: dict[str, "_Folder"]) -> tuple[str, _News]:
    """The template, and the news in it: as if each of them were learnt at once. `folders`: those read already."""
    start = _path_start(url)
    path, _, query = url[start:].partition("?")
    name, _, leaf = path.rpartition("/")
    folder = folders.get(name)
    if folder is None:
        folder = _read_folder(name, shapes)
        if not folder.news:
            folders[name] = folder
    done, above, deep, news = folder
    if not deep and path:
        word, general = _parts(leaf) if len(leaf) <= LONGEST_KEPT else _parted(leaf)
        if word:
            news = news.copy()
            room = MOST_POSITIONS - len(shapes) - len(news)
            general, above = _choice(_hash(done + "/$"), above, word, general, shapes, room, news)
        done += "/" + general
    if query:
        names = "&".join(sorted({pair.partition("=")[0] for pair in query.split("&")}))
        news = news.copy()
        room = MOST_POSITIONS - len(shapes) - len(news)
        done += "?" + _choice(_hash(done + "?"), above, names, "*", shapes, room, news)[0]
    return done, news


class _Folder(NamedTuple):
    """The template of a path up to its last segment, the position that what follows hangs on, whether that is too deep
    to be looked at, and the news."""

    template: str
    above: int
    deep: bool
    news: _News


def _read_folder(path: str, shapes: Shapes) -> _Folder:
    segments = path.split("/")[1:]
    room = MOST_POSITIONS - len(shapes)
    done, above = "", 0
    news: _News = []
    for segment in segments[:DEEPEST]:
        word, general = _parts(segment) if len(segment) <= LONGEST_KEPT else _parted(segment)
        if word:
            general, above = _choice(_hash(done + "/"), above, word, general, shapes, room - len(news), news)
        done += "/" + general
    deep = len(segments) >= DEEPEST
    return _Folder(done + "/**" if deep else done, above, deep, news)


def _path_start(url: str) -> int:
    start = url.find("/", url.find("://") + 3)
    return start if start >= 0 else len(url)


def _choice(
    position: int, above: int, word: str, general: str, shapes: Shapes, room: int, news: _News
) -> tuple[str, int]:
    """(`word` or `general`, the position that what follows hangs on)."""
    met = shapes.get(position)
    if met is None:
        if room <= 0:
            return general, above
    elif len(met) == 1:
        return general, above
    digest = _hash(word)
    if met is None or digest not in met[1:]:
        news.append((position, above, digest))
        if met is not None and len(met) > MOST_WORDS:
            return general, above
    return word, position


def _with(shapes: Shapes, news: _News) -> Shapes:
    changed = dict(shapes)
    for position, above, word in news:
        met = changed.get(position, (above,))
        if len(met) > MOST_WORDS:
            changed[position] = met[:1]
            _prune(changed, position)
        else:
            changed[position] = (*met, word)
    return changed


def _prune(shapes: dict[int, tuple[int, ...]], position: int) -> None:
    """Drop what hangs on the words of `position`: they are not told apart any more."""
    for below in [key for key, met in shapes.items() if met[0] == position]:
        if below in shapes:
            del shapes[below]
            _prune(shapes, below)


def _parted(segment: str) -> tuple[str, str]:
    """(the segment as a word, as what varies); the first is empty if it shows by itself that it varies."""
    if len(segment) > LONGEST_SEGMENT:
        return "", "*"
    name, dot, extension = segment.rpartition(".")
    if not (name and extension.lower() in EXTENSIONS):
        name, dot, extension = segment, "", ""
    end = dot + extension
    if not name:
        return "", ""
    if _NUMBER.fullmatch(name):
        return "", "#" + end
    if len(name) > LONGEST_WORD or _HEX.fullmatch(name):
        return "", "*" + end
    numbered = _NUMBERED.fullmatch(name)
    if numbered is not None:
        return f"{numbered[1]}#{end}", "*" + end
    return (name + end if _WORD.fullmatch(name) else ""), "*" + end


_parts = lru_cache(8192)(_parted)
