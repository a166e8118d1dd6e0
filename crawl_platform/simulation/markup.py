"""Sketch → HTML. A template keeps slots for noise, so the page is drawn once per version, not per response."""

import posixpath
from collections.abc import Iterable, Sequence
from html import escape

from crawl_platform.simulation import chance, noise, text
from crawl_platform.simulation.host import Host
from crawl_platform.simulation.page import Link, Position, Sketch
from crawl_platform.simulation.words import SCRIPTS, Vocabulary, person

Template = tuple[bytes, ...]
"""Literal, slot number, literal, slot number, …, literal."""

_STYLE = "".join(
    f".{name}{{margin:{i}px;padding:{i * 2}px;line-height:1.{i};color:#{i * 17:02x}{i * 13:02x}{i * 11:02x}}}"
    for i, name in enumerate(
        ("page", "masthead", "menu", "content", "meta", "list", "comment", "side", "legal"), 1
    )
)


def template(seed: int, host: Host, path: str, sketch: Sketch, version: int, words: Vocabulary) -> Template:
    """The page in the host's charset with its noise slots."""
    page = "\n".join(
        (
            "<!doctype html>",
            f'<html lang="en"><head>{_head(host, sketch)}</head>',
            f'<body class="page {host.kind}">',
            _top(host, path, sketch),
            f'<div class="ad" data-slot="top"><p>{noise.slot("ad-top")}</p></div>',
            _main(seed, host, path, sketch, version, words),
            _comments(seed, host, path, sketch, words),
            _aside(host, path, sketch),
            _footer(host, path, sketch),
            f"<!-- served in {noise.slot('millis')} ms -->",
            "</body></html>\n",
        )
    )
    return tuple(page.encode(host.charset, "xmlcharrefreplace").split(noise.MARK.encode()))


def fill(template: Template, values: Sequence[bytes]) -> bytes:
    """The response body: every slot filled with its noise."""
    parts = list(template)
    for i in range(1, len(parts), 2):
        parts[i] = values[int(parts[i])]
    return b"".join(parts)


def _head(host: Host, sketch: Sketch) -> str:
    lines = [
        f'<meta charset="{host.charset}">',
        f"<title>{escape(sketch.title)}</title>",
        '<meta name="viewport" content="width=device-width">',
        f'<meta name="csrf-token" content="{noise.slot("token")}">',
    ]
    if sketch.canonical:
        lines.append(f'<link rel="canonical" href="{escape(sketch.canonical)}">')
    if sketch.feed:
        lines.append(f'<link rel="alternate" type="application/rss+xml" href="{escape(sketch.feed)}">')
    if sketch.meta_robots:
        lines.append(f'<meta name="robots" content="{sketch.meta_robots}">')
    lines.append(f"<style>{_STYLE}</style>")
    lines.append(
        f'<script>window.boot={{"at":"{noise.slot("stamp")}","id":"{noise.slot("token")}"}};</script>'
    )
    return "\n".join(lines)


def _top(host: Host, path: str, sketch: Sketch) -> str:
    header = _anchors(host, path, sketch.links, "header")
    nav = "".join(f"<li>{a}</li>" for a in _anchors(host, path, sketch.links, "nav"))
    tagline = SCRIPTS.get(host.charset, SCRIPTS["utf-8"])
    return (
        f'<header class="masthead">{" ".join(header)}<p class="tagline">{tagline}</p></header>\n'
        f'<nav class="menu"><ul>{nav}</ul></nav>'
    )


def _main(seed: int, host: Host, path: str, sketch: Sketch, version: int, words: Vocabulary) -> str:
    lines = text.paragraphs(seed, sketch, version, words)
    anchors = _anchors(host, path, sketch.links, "main")
    inline, listed = (anchors, []) if len(anchors) <= len(lines) else ([], anchors)
    body = [f"<h1>{escape(sketch.title)}</h1>"]
    for i, line in enumerate(lines):
        more = f" See {inline[i]}." if i < len(inline) else ""
        heading = f"<h2>Part {i // 5 + 1}</h2>\n" if i and i % 5 == 0 else ""
        body.append(f"{heading}<p>{escape(line)}{more}</p>")
    if sketch.facts:
        rows = text.facts(seed, sketch, version)
        body.append("<table>" + "".join(f"<tr><th>{k}</th><td>{v}</td></tr>" for k, v in rows) + "</table>")
    if listed:
        body.append('<ul class="list">' + "\n".join(f"<li>{a}</li>" for a in listed) + "</ul>")
    if sketch.form == "login":
        body.append(_LOGIN)
    return '<main class="content"><article>\n' + "\n".join(body) + "\n</article></main>"


_LOGIN = (
    '<form method="post" action="/login"><input type="hidden" name="csrf" value="'
    + noise.slot("token")
    + '">'
    '<label>User <input name="user"></label><label>Password <input type="password" name="password"></label>'
    "<button>Sign in</button></form>"
)


def _comments(seed: int, host: Host, path: str, sketch: Sketch, words: Vocabulary) -> str:
    if not sketch.comments:
        return ""
    items = []
    for i, comment in enumerate(sketch.comments):
        rng = chance.rng(seed, "comment", sketch.text_key, i)
        link = f" {_anchor(host, path, comment.link)}" if comment.link else ""
        said = escape(words.paragraph(rng, 1 + i % 3))
        items.append(f'<div class="comment"><b>{comment.author or person(rng)}</b><p>{said}{link}</p></div>')
    return '<section class="comments" id="comments"><h2>Comments</h2>\n' + "\n".join(items) + "\n</section>"


def _aside(host: Host, path: str, sketch: Sketch) -> str:
    items = "".join(f"<li>{a}</li>" for a in _anchors(host, path, sketch.links, "aside"))
    return (
        f'<aside class="side"><ul>{items}</ul>'
        f'<div class="ad" data-slot="side"><p>{noise.slot("ad-side")}</p></div></aside>'
    )


def _footer(host: Host, path: str, sketch: Sketch) -> str:
    links = " · ".join(_anchors(host, path, sketch.links, "footer"))
    stamp = noise.slot("stamp")
    return (
        f'<footer class="legal">{links}<p class="generated">Generated <time datetime="{stamp}">{stamp}</time> '
        f"for {noise.slot('visitors')} visitors</p></footer>"
    )


def _anchors(host: Host, path: str, links: Iterable[Link], position: Position) -> list[str]:
    return [_anchor(host, path, link) for link in links if link.position == position]


def _anchor(host: Host, path: str, link: Link) -> str:
    rel = f' rel="{link.rel}"' if link.rel else ""
    href = escape(href_of(host, path, link.url), quote=True)
    return f'<a href="{href}"{rel}>{escape(link.anchor)}</a>'


def href_of(host: Host, path: str, url: str) -> str:
    """The reference as the host writes it: absolute to others, path or relative path at home."""
    if not url.startswith(host.root):
        return url
    target = url[len(host.origin) :]
    if host.sessions:
        joint = "&" if "?" in target else "?"
        return f"{target}{joint}{noise.SESSION_PARAMETER}={noise.slot('session')}"
    if host.relative and "?" not in target and "?" not in path:
        return _relative(target, path)
    return target


def _relative(target: str, path: str) -> str:
    """`target` as seen from `path`, e.g. /a/b.html from /a/c/d.html → ../b.html."""
    folder = posixpath.dirname(path)
    reference = posixpath.relpath(target, folder) if target != "/" else posixpath.relpath("/", folder) + "/"
    return reference + "/" if target.endswith("/") and not reference.endswith("/") else reference
