"""The loops over octets say what the same in Python would, whatever stands beside what."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from crawl_platform.digest.fingerprint import mask
from crawl_platform.digest.octets import BLANK, LOWER, OTHERS, OUT, WORDS, append, fold

CONTROLS = dict.fromkeys(range(32), " ")
BLANKS = "\t\n\x01\0\x85\xa0\u1680\u2003\u2028\u202f\u205f\u3000"
ALPHABET = f"abAZ[@`{{~\x7f19 {BLANKS}\xe9\xc9\u0410\u1ec0\u2019\u3042\U0001f600"
TEXT = st.lists(st.sampled_from(["plain words", "        ", *ALPHABET]), max_size=40).map("".join)


@given(st.lists(TEXT, max_size=6))
def test_white_space_is_collapsed_across_pieces_and_words_are_counted(pieces: list[str]) -> None:
    out, state = np.empty(4_096, np.uint8), np.zeros(4, np.int64)
    state[BLANK] = 1
    for piece in pieces:
        octets = np.frombuffer(b"?" + piece.encode(), np.uint8)
        append(octets.ctypes.data + 1, len(octets) - 1, out, state)

    written = out[: state[OUT]].tobytes().decode()
    words = "".join(pieces).translate(CONTROLS).split()
    assert written.rstrip(" ") == " ".join(words)
    assert state[WORDS] == len(words)
    assert len(written) == state[OUT] - state[OTHERS]


@given(st.integers(0, 64), st.integers(0, 200))
def test_no_more_is_written_than_there_is_room_for(room: int, length: int) -> None:
    out, state = np.full(room + 16, 7, np.uint8), np.zeros(4, np.int64)
    source = np.frombuffer(b"abcdefg " * 25, np.uint8)

    append(source.ctypes.data, length, out, state)

    assert state[OUT] == min(room, length)
    assert out[: state[OUT]].tobytes() == source[: state[OUT]].tobytes()


@given(TEXT, st.integers(0, 9))
def test_case_is_folded_as_by_python(text: str, begin: int) -> None:
    source = np.frombuffer(text.encode() + b" ", np.uint8)
    out = np.empty(begin + len(source), np.uint8)

    assert fold(source, 0, len(source), out, begin, LOWER) == len(out)

    assert out[begin:].tobytes().decode() == text.lower() + " "


def test_what_changes_its_length_in_lower_case_keeps_its_case() -> None:
    source = np.frombuffer("İA".encode(), np.uint8)
    out = np.empty(3, np.uint8)
    fold(source, 0, 3, out, 0, LOWER)

    assert out.tobytes().decode() == "İa"


@given(st.sampled_from(["é", "日本 ", "х ", "🙂", "word ", "© "]), st.integers(0, 30))
def test_numbers_are_masked_wherever_they_stand(before: str, times: int) -> None:
    lead = before * times + "x "
    noise = "on may 26, 2026 at 12:30, 17 minutes ago, 1234567890abcdef1234 costs 12 €"

    assert mask(lead + noise) == lead + mask(noise)
    assert mask(noise) == "on  at , ,  costs 12 €"
