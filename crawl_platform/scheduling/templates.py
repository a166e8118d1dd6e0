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


def template_of(url: str, shapes: Shapes) -> str:
    """The template of a canonical URL of the host that `shapes` are of."""
    return _read(url, shapes)[0]


def learn(url: str, shapes: Shapes) -> tuple[Shapes, str]:
    """What `shapes` become once `url` was met (the same object if it teaches nothing), and its template."""
    template, news = _read(url, shapes)
    while news:
        shapes = _with(shapes, news)
        template, news = _read(url, shapes)
    return shapes, template


def group_id(host: str, template: str) -> int:
    """Number of a group, unique within its host: 1 to 2^31 − 1, the same everywhere and always."""
    return _hash(f"{host}\0{template}") & 0x7FFFFFFF or 1


def _hash(text: str) -> int:
    return xxhash.xxh32_intdigest(text.encode())


def _read(url: str, shapes: Shapes) -> tuple[str, _News]:
    """The template, and the news in it: as if each of them were learnt at once."""
    path, _, query = url[_path_start(url) :].partition("?")
    segments = path.split("/")
    last, room = len(segments) - 1, MOST_POSITIONS - len(shapes)
    done, above = "", 0
    news: _News = []
    for n in range(1, min(last, DEEPEST) + 1):
        segment = segments[n]
        word, general = _parts(segment) if len(segment) <= LONGEST_SEGMENT else ("", "*")
        if word:
            position = _hash(done + ("/$" if n == last else "/"))
            general, above = _choice(position, above, word, general, shapes, room - len(news), news)
        done += "/" + general
    if last > DEEPEST:
        done += "/**"
    if query:
        names = "&".join(sorted({pair.partition("=")[0] for pair in query.split("&")}))
        position = _hash(done + "?")
        done += "?" + _choice(position, above, names, "*", shapes, room - len(news), news)[0]
    return done, news


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


@lru_cache(8192)
def _parts(segment: str) -> tuple[str, str]:
    """(the segment as a word, as what varies); the first is empty if it shows by itself that it varies."""
    name, dot, extension = segment.rpartition(".")
    if not (name and extension.lower() in EXTENSIONS):
        name, dot, extension = segment, "", ""
    end = dot + extension
    if not name:
        return "", ""
    if _NUMBER.fullmatch(name):
        return "", "#" + end
    numbered = _NUMBERED.fullmatch(name)
    if len(name) > LONGEST_WORD or _HEX.fullmatch(name):
        return "", "*" + end
    if numbered is not None:
        return f"{numbered[1]}#{end}", "*" + end
    return (name + end if _WORD.fullmatch(name) else ""), "*" + end
