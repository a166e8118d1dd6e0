"""What the fuzzed inputs look like: texts that know the grammar of their target, and are wrong in places.

Every generator takes a source of chance (`random.Random`, or Hypothesis' own, which can shrink) and returns bytes.
"""

import gzip
import zlib
from collections.abc import Callable, Sequence
from random import Random

import brotli
import zstandard

Make = Callable[[Random], bytes]

ODD = [
    "",
    " ",
    "\t",
    "\n",
    "\r\n",
    "\x00",
    "\x0b",
    "é",
    "日本",
    "ß",
    "İ",
    "\u200b",
    "\ufeff",
    "\U0001f600",
    "\ud800",
    "%",
]
LONG = 30_000
"""Characters up to which one piece is repeated in one input of `LONG_ONE_IN`."""
LONG_ONE_IN = 400


def text(parts: Sequence[str]) -> bytes:
    return "".join(parts).encode("utf-8", "surrogatepass")


def pick(rnd: Random, pieces: Sequence[str], most: int) -> list[str]:
    """Up to `most` pieces; now and then one of them many times over."""
    chosen = [rnd.choice(pieces) for _ in range(rnd.randint(0, most))]
    if chosen and rnd.randrange(LONG_ONE_IN) == 0:
        at = rnd.randrange(len(chosen))
        chosen[at] *= rnd.randint(1, max(LONG // max(len(chosen[at]), 1), 1))
    return chosen


# URLs

SCHEMES = [
    "http://",
    "https://",
    "HTTPS://",
    "http:",
    "//",
    "/",
    "",
    "ftp://",
    "javascript:",
    "ht\ntp://",
    "http:\\\\",
]
HOSTS = [
    "a.example", "A.Example.", "u:p@a.example", "a.example:80", "a.example:65536", "[::1]", "[1::2:3]:81",
    "[::", "1.2.3.4", "0x7f.1", "1.2.3", "256.256.256.256", "xn--a", "xn--bcher-kva.example",
    "bücher.example", "i❤.ws", "a_b.host", "a..b", "%41.example", "a%00.example", "FAẞ.de", "١٢.example",
    "a\u200cb.example", "", ".", "x" * 64 + ".example",
]  # fmt: skip
PATHS = [
    "/", "//", ".", "..", "/../", "/%2e%2E/", ";jsessionid=Q1", ";sid=1", "/(S(abcdefghijklmnopqrstuv0))/",
    "a", "B9", "2024/03/", "/calendar/2199/12", "/session/0f1e2d3c4b5a69788796a5b4c3d2e1f0/", "%20", "%7e",
    "%c3%a9", "%zz", "%3", "%%34%31", "+", "'", "[", "|",
]  # fmt: skip
QUERIES = [
    "?", "&", "=", "utm_source=1", "gclid", "sid=3", "sid=0123456789abcdef0", "PHPSESSID=1", "a=1", "b=2",
    "tags[]=x", "tags%5B%5D=y", "?x?y", "%27%27", "''", "month=3", "year=2024", "#", "%20", "&&",
    "date=2024-01-01",
]  # fmt: skip


def url(rnd: Random) -> bytes:
    parts = [rnd.choice(SCHEMES), rnd.choice(HOSTS), *pick(rnd, PATHS, 8)]
    if rnd.random() < 0.6:
        parts += ["?", *pick(rnd, QUERIES, 8)]
    if rnd.random() < 0.2:
        parts.insert(rnd.randint(0, len(parts)), rnd.choice(ODD))
    return text(parts)


# robots.txt

ROBOTS = [
    "User-agent: *\n", "user-agent: tester\r\n", "User-Agent : bad bot/1.0\n", "Disallow:\n",
    "Disallow: /\n", "Allow: /*s=\n", "Allow: /*/filter/page=*/$\n", "Disallow: /*%2F*\n",
    "Disallow: /*a*a*a*a*b$\n", "Crawl-delay: 1.5\n", "Crawl-delay: -1e9\n", "Request-rate: 1/10s\n",
    "Sitemap: http://a.example/s.xml\n", "Sitemap: //x\n", "Content-Signal: search=yes, ai-train=no\n",
    "Content-Usage: /x train-ai=n\n", "#", "# comment\n", "noindex: /\n", "garbage\n", "\n", "\r", "\x00",
    "\ufeff", "<html>", "User-agent", ":", "Disallow: /" + "*" * 40 + "\n", "Allow: /caf\xe9\n",
    "allow: /%e9%\n", " Disallow: /indented\n",
]  # fmt: skip


def robots(rnd: Random) -> bytes:
    return text(pick(rnd, ROBOTS, 30))


# HTML

TAGS = [
    "a", "b", "p", "div", "nav", "main", "table", "tr", "td", "script", "style", "template", "noscript",
    "svg", "math", "select", "option", "form", "iframe", "frameset", "title", "textarea", "plaintext",
    "base", "meta", "link", "img", "br", "h1", "ul", "li", "body", "html", "head",
]  # fmt: skip
ATTRIBUTES = [
    'href="/x"', "href=//b.example", 'href=" http://x/ "', 'rel="nofollow next"', "rel=canonical",
    'src="i.png"', 'srcset="a 1x, b 2x,,"', 'http-equiv=refresh content="0;url=/y"',
    'name=robots content="noindex, noai"', 'charset="shift_jis"', "charset=utf-16",
    'http-equiv=content-type content="text/html; charset=gbk"', 'hreflang="de"', "type=application/ld+json",
    "type=application/rss+xml", 'class="ad"', 'id="' + "x" * 50 + '"', "=", '"', "'", "<", "a" * 20,
    'style="display:none"', "shadowrootmode=open", 'xlink:href="#z"', "data-x=1",
]  # fmt: skip
MARKUP = [
    "words in a sentence, ", "Some text. ", "12 March 2024 ", "&amp;", "&#x110000;", "&lt", "&" + "a" * 30,
    "<!--", "-->", "<!DOCTYPE html>", "<![CDATA[", "]]>", "<?xml version='1.0'?>", "</", "<", ">", "\x00",
    "\ufeff", "日本語", '{"@type":"Article"}',
]  # fmt: skip


def html(rnd: Random) -> bytes:
    parts: list[str] = []
    for _ in range(rnd.randint(0, 40)):
        draw = rnd.random()
        if draw < 0.5:
            parts += ["<", rnd.choice(TAGS), " ", " ".join(pick(rnd, ATTRIBUTES, 3)), ">"]
        elif draw < 0.65:
            parts += ["</", rnd.choice(TAGS), ">"]
        else:
            parts += pick(rnd, MARKUP, 3)
    if rnd.randrange(LONG_ONE_IN) == 0:
        parts *= rnd.randint(1, LONG // (len("".join(parts)) + 1) + 1)
    encoding = rnd.choice(["utf-8", "utf-8", "utf-8", "utf-16", "utf-16-be", "shift_jis", "latin-1"])
    return "".join(parts).encode(encoding, "replace")


# Sitemaps and feeds

XML = [
    "<?xml version='1.0' encoding='UTF-8'?>",
    "<urlset xmlns='http://www.sitemaps.org/schemas/sitemap/0.9'>", "<sitemapindex>", "<url>", "</url>",
    "<sitemap>", "</sitemap>", "<loc>http://a.example/x</loc>", "<loc><![CDATA[ /y&z ]]></loc>", "<loc>",
    "</loc>", "<lastmod>2024-03-01T00:00:00Z</lastmod>", "<lastmod>yesterday</lastmod>",
    "<xhtml:link rel='alternate' hreflang='de' href='/de'/>", "<news:news>", "<image:loc>i.png</image:loc>",
    "</urlset>", "<rss><channel>", "<item>", "</item>", "<link>/p</link>",
    "<guid isPermaLink='true'>/g</guid>", "<pubDate>Fri, 01 Mar 2024 00:00:00 GMT</pubDate>",
    "<feed xmlns='http://www.w3.org/2005/Atom'>", "<entry>", "<link href='/e' rel=\"alternate\"/>",
    "<updated>2024</updated>", "</entry>", "<link rel='hub' href='//h'/>",
    "<!DOCTYPE x [<!ENTITY a 'aaaa'>]>", "&a;&a;", "&amp;", "&#0;", "<!--", "-->", "]]>", "<", "\x00",
    "http://a.example/1\n", "\ufeff", "<a:b c='d' c='e'>",
]  # fmt: skip


def sitemap(rnd: Random) -> bytes:
    body = "".join(pick(rnd, XML, 30)).encode(
        rnd.choice(["utf-8", "utf-8", "utf-16", "utf-16-le"]), "replace"
    )
    for _ in range(rnd.choice([0, 0, 0, 1, 2, 3])):
        body = gzip.compress(body, 1)
    return body


# Header values: one to a line of "name: value"

HEADER_NAMES = [
    "retry-after", "x-robots-tag", "link", "refresh", "content-usage", "tdm-reservation", "content-type",
    "crawler-price", "crawler-charged", "crawler-error", "location", "content-encoding", "payment-required",
    "srcset", "date",
]  # fmt: skip
HEADER_VALUES = [
    '[{"location": "/x*", "tdm-reservation": 1}]', '{"location": "/*y$", "tdm-reservation": "0"}', "noai, noarchive",
    "7", "-1", "1e9", "9" * 50, "Fri, 01 Mar 2024 00:00:00 GMT", "Fri, 99 Foo 99999 99:99:99 +9999",
    "noindex", "otherbot: noindex, nofollow", "unavailable_after: 1", "<x>; rel=next",
    '<y>; rel="a b"; hreflang=de', "<", ">", ";", ",", "=", '"', "\\", "0;url=/x", "5; URL='/y'",
    "train-ai=n", "search=y;x=?1", "(a b)", ":YQ==:", "1", "text/html; charset=utf-8",
    "text/html;charset='", "USD 0.01", "0.000000001 USD", "1e400 EUR", "///b.example/p", "javascript:x",
    "gzip, br", "x-gzip", "a 1x, b 2x", "(", ")", "eyJhY2NlcHRzIjpbXX0=", "é", "\udce9", "\x00",
]  # fmt: skip


def headers(rnd: Random) -> bytes:
    return text([f"{rnd.choice(HEADER_NAMES)}: ", *pick(rnd, HEADER_VALUES, 6)])


# Encoded bodies: one byte says which encoding the header names

ENCODINGS = ["gzip", "deflate", "br", "zstd", "gzip, br", "x-gzip", "identity", "unknown", ""]


def encoded(rnd: Random) -> bytes:
    plain = text(pick(rnd, MARKUP, 20)) * rnd.choice([1, 1, 1, 50])
    named = rnd.randrange(len(ENCODINGS))
    wire = rnd.choice(_COMPRESS)(plain)
    if rnd.random() < 0.1:
        wire += rnd.choice(_COMPRESS)(plain)
    return bytes((named,)) + wire


def _raw_deflate(data: bytes) -> bytes:
    return zlib.compress(data, 1)[2:-4]


_COMPRESS: list[Callable[[bytes], bytes]] = [
    lambda data: gzip.compress(data, 1),
    lambda data: zlib.compress(data, 1),
    _raw_deflate,
    lambda data: bytes(brotli.compress(data, quality=1)),
    lambda data: zstandard.compress(data, 1),
    lambda data: data,
]

# Answers on the wire

STATUS = [
    "HTTP/1.1 200 OK", "HTTP/1.1 301 Moved", "HTTP/1.0 404", "HTTP/1.1 503 x", "HTTP/1.1 429 Slow",
    "HTTP/1.1 999 ?", "HTTP/1.1 204 No", "HTTP/1.1 304 Not", "HTTP/1.1 100 Go", "HTTP/2 200", "HTTP/1.1",
    "HTTP/1.1 20 OK", "ICY 200 OK", "<html>", "HTTP/1.1 402 Pay", "HTTP/1.1 103 Early",
]  # fmt: skip
FIELDS = [
    "Content-Length: 5", "Content-Length: 5, 5", "Content-Length: -1", "Content-Length: 99",
    "Content-Length: x", "Transfer-Encoding: chunked", "Transfer-Encoding: gzip, chunked",
    "Content-Encoding: gzip", "Content-Encoding: br", "Location: /x", "Location: ///fr.host/p",
    "Location: \xe9", "Set-Cookie: _csrf/link=1", "Content-Type: text/html", "Connection: close",
    "Retry-After: 7", " folded: yes", "\tfolded", "no colon", ": empty", "X-A : b", "X\x00: y",
    "ETag: \"x\"", "X: " + "y" * 300, "Refresh: 0;url=/r", "Upgrade: h2c",
]  # fmt: skip
BODIES = [
    "", "hello", "5\r\nhello\r\n0\r\n\r\n", "5;x=y\r\nhello\r\n0\r\nT: z\r\n\r\n", "zz\r\n", "-1\r\n",
    "ffffffffffffffff\r\nx", "<a href=/y>y</a>", "\x1f\x8b\x08", "HTTP/1.1 200 OK\r\n\r\n",
]  # fmt: skip
ENDS = ["\r\n", "\r\n", "\r\n", "\n", "\r", "\r\n\r\n", ""]


def answer(rnd: Random) -> bytes:
    parts = [rnd.choice(STATUS), rnd.choice(ENDS)]
    for field in pick(rnd, FIELDS, 6):
        parts += [field, rnd.choice(ENDS[:5])]
    parts += [rnd.choice(ENDS[:5]), *pick(rnd, BODIES, 3)]
    return "".join(parts).encode("latin-1", "replace")
