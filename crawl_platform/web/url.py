"""URLs: WHATWG parsing and resolving (ada), then the crawl's own rules for "the same page".

Two notions, never mixed. `resolve` is what a browser does and nothing more (WHATWG URL Standard, fragments
kept). `canonicalize` is policy on top: an ordered table of small named rules, each of which removes something
that does not select content. The rules run until none fires, so the result is a fixed point. What is *not*
done, because servers do tell these apart: sorting parameters, dropping trailing slashes, collapsing `//`,
lower-casing paths, dropping `index.html` or `www.`.

Most URLs of a crawl are plain already; one regular expression proves it and saves the parse.
"""

import re
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

from ada_url import join_url, parse_url

# A host that WHATWG leaves as it is: lower case, no punycode to validate, last label all letters (so that it
# can't be an IPv4 number).
_PLAIN_HOST = r"(?:(?!xn--)[a-z0-9_-]++\.)++(?!xn--)[a-z]{2,}+"
# A port that WHATWG writes as it stands: no leading zero, in range, and not one that may be the scheme's own.
_PLAIN_PORT = (
    r"(?::(?!(?:80|443)(?![0-9]))(?:[1-9][0-9]{0,3}|[1-5][0-9]{4}|6(?:[0-4][0-9]{3}|5(?:[0-4][0-9]{2}|5(?:[0-2][0-9]|3[0-5]))))"
    r"(?![0-9]))?+"
)
# Path and query characters that WHATWG never encodes; a segment that starts with a dot may be a dot segment.
_PLAIN_PATH = r"(?:/(?!\.|%2[Ee])[A-Za-z0-9\-._~!$&'()*+,;=:@%|\[\]]*+)*+"
_PLAIN_QUERY = r"(?:\?[A-Za-z0-9\-._~!$&()*+,;=:@/?%|\[\]]*+)?+"
# Of these, what no rule of ours can fire on: no escapes, no path parameters, no session segment.
_SETTLED_PATH = r"(?:/(?![.(])[A-Za-z0-9\-._~!$&'()*+,=:@|\[\]]*+)++"
_SETTLED_QUERY = r"(?:\?[A-Za-z0-9\-._~!$&()*+,=:@/?|\[\]]*+)?+"
_HTTP = ("http://", "https://")

_serialised = re.compile(rf"https?://{_PLAIN_HOST}{_PLAIN_PORT}(?=/){_PLAIN_PATH}{_PLAIN_QUERY}").fullmatch
_settled = re.compile(rf"https?://{_PLAIN_HOST}{_PLAIN_PORT}{_SETTLED_PATH}({_SETTLED_QUERY})").fullmatch
_explicit_port = re.compile(r"https?://[^/?#]*:([0-9]{1,5})/").match
_plain_host = re.compile(rf"https?://({_PLAIN_HOST}){_PLAIN_PORT}(?:[/?#]|\Z)").match
_plain_path = re.compile(rf"(?=/)(?!//){_PLAIN_PATH}{_PLAIN_QUERY}").fullmatch
_plain_leaf = re.compile(
    rf"(?![.]|%2[Ee])[A-Za-z0-9\-._~!$&'()*+,;=@%|\[\]]+{_PLAIN_PATH}{_PLAIN_QUERY}"
).fullmatch


def resolve(href: str, base: str | None = None) -> str | None:
    """The absolute URL of `href` in a document at `base`, as a browser would resolve it (WHATWG).

    None if it can't be parsed or is neither http nor https. The fragment is kept.
    """
    if _serialised(href):
        return href
    url = _parse(href, base)
    return url if url is not None and url.startswith(_HTTP) else None


def _parse(href: str, base: str | None) -> str | None:
    try:
        return join_url(base, href) if base is not None else parse_url(href, ("href",))["href"]
    except ValueError:
        scalars = _scalar(href), None if base is None else _scalar(base)
        return _parse(*scalars) if scalars != (href, base) else None


def _scalar(text: str) -> str:
    """Lone surrogates are the one thing in a str that is no scalar value; WHATWG reads them as U+FFFD."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


class Base:
    """A base URL against which many references are resolved: the same answers as `resolve`, sooner.

    `url` must be an http(s) URL in WHATWG form, as `resolve` returns it.
    """

    __slots__ = ("_directory", "_origin", "url")

    def __init__(self, url: str) -> None:
        self.url = url
        stem = re.split(r"[?#]", url, maxsplit=1)[0]
        self._directory = stem[: stem.rindex("/") + 1]
        self._origin = url[: url.index("/", url.index("//") + 2)]

    def resolve(self, href: str) -> str | None:
        if href[:1] == "/":
            if _plain_path(href):
                return self._origin + href
        elif href[:4] != "http" and _plain_leaf(href):
            return self._directory + href
        return resolve(href, self.url)


class Rule(NamedTuple):
    """`name` for `explain`; `apply` returns the URL without the thing (or the URL itself)."""

    name: str
    apply: Callable[[str], str]


def _substitute(pattern: str, replacement: str | Callable[[re.Match[str]], str] = "") -> Callable[[str], str]:
    compiled = re.compile(pattern, re.IGNORECASE)
    return lambda url: compiled.sub(replacement, url)


# Parameters that say where a visitor came from, never what the page shows.
_TRACKING = (
    r"utm_[a-z_]+|gclid|gclsrc|dclid|gbraid|wbraid|fbclid|msclkid|yclid|ysclid|twclid|ttclid|igshid|li_fat_id"
    r"|mc_cid|mc_eid|mkt_tok|_ga|_gl|_hs(?:enc|mi)|__hs(?:tc|sc|fp)|hsctatracking|oly_(?:anon|enc)_id|vero_(?:id|conv)"
    r"|wickedid|_openstat|s_cid|srsltid|pk_(?:campaign|kwd|source|medium|content)|mtm_[a-z]+|xtor|cmpid"
)
# Names that are a session whatever the value; and names that are one only if the value looks like a token
# (`sid` is also a story, a section or a shop).
_SESSION = r"phpsessid|jsessionid|aspsessionid[a-z]*|cfid|cftoken|sessionid|session_id|sessid|zenid|oscsid"
_MAYBE_SESSION = r"sid|session|s|osid|ssid"
_TOKEN = r"(?=[a-z-]*[0-9])[0-9a-z_-]{16,}(?![^&;#])"
_is_telling = re.compile(rf"{_TRACKING}|{_SESSION}|{_MAYBE_SESSION}", re.IGNORECASE).fullmatch


_LONGEST_KEPT = 40


@lru_cache(maxsize=4_096)
def _is_telling_short(name: str) -> bool:
    return _is_telling(name) is not None


def _may_be_dropped(name: str) -> bool:
    """Whether the rules look at parameters of this name. Short ones, which the web has few of, are remembered."""
    return _is_telling_short(name) if len(name) <= _LONGEST_KEPT else _is_telling(name) is not None


def _parameters(names: str, value: str = r"[^&#]*+") -> Callable[[str], str]:
    """Drop every query parameter called one of `names`; the separator that is left over goes with it.

    Matched on the query in lower case: without IGNORECASE, `re` skips an alternative by its first letter.
    """
    find = re.compile(rf"[?&](?:{names})(?:={value})?(?=[&#]|\Z)").finditer

    def apply(url: str) -> str:
        mark = url.find("?")
        if mark < 0:
            return url
        kept: list[str] = []
        done = mark
        for found in find(url[mark:].lower()):
            kept.append(url[done : mark + found.start() + 1])
            done = mark + found.end()
            done += url[done : done + 1] == "&"
        return url[:mark] + ("".join(kept) + url[done:]).rstrip("?&") if kept else url

    return apply


def _past_authority(change: Callable[[str], str]) -> Callable[[str], str]:
    """`change` the path and query only: a host may hold what looks like a path's parameter."""

    def apply(url: str) -> str:
        start = url.find("/", len("https://"))
        return url if start < 0 else url[:start] + change(url[start:])

    return apply


def _with(mark: str, change: Callable[[str], str]) -> Callable[[str], str]:
    """`change` URLs that hold `mark`: the others need no look."""
    return lambda url: change(url) if mark in url else url


_host_dot = re.compile(r"https?://[^/:?#]*[^/:?#.](\.)[:/?#]").match


def _without_host_dot(url: str) -> str:
    found = None if _plain_host(url) else _host_dot(url)
    return url[: found.start(1)] + url[found.end(1) :] if found else url


# Escapes of unreserved octets, and those in lower case.
_ODD_ESCAPE = r"%(?:[a-f][0-9A-Fa-f]|[0-9A-F][a-f]|3[0-9]|[46][1-9A-F]|[57][0-9A]|2[DE]|5F|7E)"
_odd_escapes = re.compile(_ODD_ESCAPE)


def _normalise_escapes(url: str) -> str:
    """RFC 3986 §6.2.2: unreserved octets are written plainly, other escapes in upper case."""
    return _odd_escapes.sub(_normalised, url)


def _normalised(match: re.Match[str]) -> str:
    char = chr(int(match[0][1:], 16))
    return char if char.isascii() and (char.isalnum() or char in "-._~") else match[0].upper()


# What slips into a link's end: controls, white space, zero-width space; after a path also the quotes and angle
# brackets around it, which may end a search phrase. Written backwards, to be matched on the reversed text: a search
# would look from each of many `%20` to the end.
_SPACE_BACKWARDS = r"[0-9A-D]0%|02%|0A%2C%|B8%08%2E%"
_space_backwards = re.compile(rf"(?:{_SPACE_BACKWARDS})*+").match
_junk_backwards = re.compile(rf"(?:{_SPACE_BACKWARDS}|22%|C3%|E3%)*+").match


def _clean_ends(url: str) -> str:
    path, mark, query = url.partition("?")
    junk, space = _junk_backwards(path[::-1]), _space_backwards(query[::-1])
    path = path[: len(path) - junk.end()] if junk else path
    return path + mark + (query[: len(query) - space.end()] if space else query)


def _without_empty_query(url: str) -> str:
    path, _, query = url.partition("?")
    query = query.rstrip("?&")
    return f"{path}?{query}" if query else path


RULES: tuple[Rule, ...] = (
    Rule("fragment", _with("#", _substitute(r"#.*\Z"))),
    Rule("user-info", _with("@", _substitute(r"(?<=\A)(https?://)[^/?#]*@", r"\1"))),
    Rule("host-dot", _without_host_dot),
    Rule("escapes", _with("%", _normalise_escapes)),
    Rule("path-session", _with(";", _past_authority(_substitute(rf";(?:{_SESSION}|sid)=[^/?#;]*")))),
    Rule(
        "path-session-segment", _with("/(", _past_authority(_substitute(r"/\([a-z]\([0-9a-z]{20,}\)\)(?=/)")))
    ),
    Rule("tracking-parameters", _parameters(_TRACKING)),
    Rule("session-parameters", _parameters(_SESSION)),
    Rule("session-tokens", _parameters(_MAYBE_SESSION, _TOKEN)),
    Rule("trailing-junk", _with("%", _clean_ends)),
    Rule("empty-query", _with("?", _without_empty_query)),
)
"""In order. Default ports, dot segments, case of scheme and host, and IDNA are WHATWG's and need no rule."""

ROUNDS = 5
"""Most times that the rules run over one URL. One that is still not settled then (`%%3%34…`, a removal that
uncovers another without end) is nobody's page, and a long one would cost seconds."""

# A look that tells whether any rule could fire; it may say yes in vain, never no in vain.
_odd_escape = re.compile(rf"{_ODD_ESCAPE}|%(?:0[0-9A-D]|20|22|3C|3E|C2%A0|E2%80%8B)(?:\Z|\?)").search
_path_session = re.compile(rf";(?:{_SESSION}|sid)=|/\([a-z]\(", re.IGNORECASE).search
_odd_authority = re.compile(r"https?://[^/]*(?:@|\.[:/])").match


_names = re.compile(r"[?&]([^=?&]++)").findall


def _suspect(href: str) -> bool:
    mark = href.find("?")
    if mark >= 0 and _suspect_query(href[mark:]):
        return True
    if "%" in href and _odd_escape(href):
        return True
    if (";" in href or "/(" in href) and _path_session(href):
        return True
    return _plain_host(href) is None and _odd_authority(href) is not None


def _suspect_query(query: str) -> bool:
    if query[-1] in "?&":
        return True
    return any(map(_may_be_dropped, set(_names(query))))


def canonicalize(url: str) -> str | None:
    """The one URL under which this crawl knows the page of `url`; None if it is not http(s), or can't be
    settled in `ROUNDS`.

    Idempotent. Beyond WHATWG only `RULES` apply.
    """
    mark = url.find("#")
    if mark >= 0:
        url = url[:mark]
    settled = _settled(url)
    if settled and not (settled[1] and _suspect_query(settled[1])):
        return url
    href = resolve(url)
    if href is None or not _suspect(href):
        return href
    return _settle(href, [])


def explain(url: str) -> list[str]:
    """Names of the rules that fire on `url`, in order; empty if none does or it is not http(s)."""
    href = resolve(url)
    fired: list[str] = []
    if href is not None:
        _settle(href, fired)
    return fired


def _settle(href: str, fired: list[str]) -> str | None:
    """Run the rules until none fires."""
    for _ in range(ROUNDS):
        before = href
        for rule in RULES:
            after = rule.apply(href)
            if after != href:
                fired.append(rule.name)
                href = after
        if href == before:
            return href
        # A removal may have uncovered a dot segment ("/..;sid=1" → "/..").
        settled = resolve(href)
        if settled is None or not _suspect(settled):
            return settled
        href = settled
    return None


def host_of(url: str) -> str:
    """The hostname of `url` (ASCII, lower case, no port; IPv6 in brackets), '' if it is not http(s)."""
    plain = _plain_host(url)
    return plain[1] if plain else _parts(url)[0]


def origin_of(url: str) -> str:
    """`https://host`, with `:port` unless it is the scheme's default; '' if it is not http(s)."""
    return _parts(url)[1]


def origin_of_canonical(url: str) -> str:
    """`origin_of` a canonical URL, which says it in so many words: no parse."""
    return "/".join(url.split("/", 3)[:3])


def port_of(url: str) -> int | None:
    """The port that the canonical `url` names; None if it is the scheme's default."""
    if url.find(":", 7) < 0:  # most name none, and looking for a character is the quickest way to know
        return None
    port = _explicit_port(url)
    return int(port[1]) if port else None


def _parts(url: str) -> tuple[str, str]:
    """Hostname and origin."""
    try:
        parts = parse_url(url, ("protocol", "hostname", "origin"))
    except ValueError:
        scalar = _scalar(url)
        return _parts(scalar) if scalar != url else ("", "")
    return (parts["hostname"], parts["origin"]) if parts["protocol"] in ("http:", "https:") else ("", "")
