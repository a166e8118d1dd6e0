"""In which encoding is a text that declares none? Narrow guesses by how often letters occur.

Valid UTF-8 that is not ASCII is UTF-8. A multibyte encoding is believed if the sample decodes in it and the
characters are mostly those that its language uses most: kana for Japanese, the two thousand hangul of KS X 1001,
the first level of GB 2312 or of Big5. Russian is believed by its nine most frequent letters, which make up two
thirds of any text. Browsers guess in the same cases.
"""

import codecs
import re
from collections.abc import Callable

_SAMPLE = 65_536
_MOST = 20_000
"""Characters that are counted; far fewer are enough."""
_kana = re.compile("[ぁ-ゖァ-ヺー]").findall
_wide = re.compile("[^\x00-\x7f]").findall
_high = re.compile(rb"[\x80-\xff]++").findall
_pairs = re.compile(rb"[\x81-\xfe][\x40-\xfe]").findall
_hangul = re.compile(rb"[\xb0-\xc8][\xa1-\xfe]").fullmatch
_hanzi = re.compile(rb"[\xb0-\xd7\xa1-\xa3][\xa1-\xfe]").fullmatch
_big5 = re.compile(rb"[\xa4-\xc6\xa1][\x40-\x7e\xa1-\xfe]").fullmatch
_RUSSIAN = "оеаинтсрв"


def guess(body: bytes) -> str | None:
    """The WHATWG name of the encoding of `body`, which is not ASCII; None if nothing speaks for one."""
    sample = body[:_SAMPLE]
    whole = len(body) <= _SAMPLE
    if _decoded(sample, "utf-8", whole) is not None:
        return "utf-8"
    for name, codec in (("shift_jis", "cp932"), ("euc-jp", "euc_jp")):
        text = _decoded(sample, codec, whole)
        if text is not None and 3 * len(_kana(text)) > len(_wide(text)):
            return name
    pairs = [pair for run in _runs(sample) for pair in _pairs(run)][:_MOST]
    for name, codec, usual, share in _LANGUAGES:
        if _decoded(sample, codec, whole) is not None and _share(pairs, usual) >= share:
            return name
    return _cyrillic(_high(sample))


def _decoded(sample: bytes, codec: str, whole: bool) -> str | None:
    try:
        return codecs.getincrementaldecoder(codec)().decode(sample, final=whole)
    except UnicodeDecodeError:
        return None


def _runs(sample: bytes) -> list[bytes]:
    # The second octet of a pair may be ASCII.
    return [run for run in re.findall(rb"(?:[\x81-\xfe][\x40-\x7e\x80-\xfe])++", sample) if len(run) >= 4]


_Usual = Callable[[bytes], object]
# The narrowest first: hangul and the first level of GB 2312 overlap, and Korean uses no others.
_LANGUAGES: tuple[tuple[str, str, _Usual, float], ...] = (
    ("euc-kr", "cp949", _hangul, 0.9),
    ("gbk", "gb18030", _hanzi, 0.85),
    ("big5", "big5hkscs", _big5, 0.85),
)


def _share(pairs: list[bytes], usual: _Usual) -> float:
    return sum([usual(pair) is not None for pair in pairs]) / len(pairs) if len(pairs) >= 4 else 0.0


def _cyrillic(runs: list[bytes]) -> str | None:
    """Words are runs of high octets, while accented letters stand alone among others."""
    words = b"".join([run for run in runs if len(run) >= 3])[:_MOST]
    if 2 * len(words) < sum(map(len, runs)):
        return None
    shares = {
        name: sum([words.count(letter.encode(codec)) for letter in _RUSSIAN]) / len(words)
        for name, codec in (("windows-1251", "cp1251"), ("koi8-r", "koi8-r"))
    }
    best = max(shares, key=shares.__getitem__)
    return best if shares[best] >= 0.5 else None
