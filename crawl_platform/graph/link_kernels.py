"""Loops over names and link sets, as machine code: what `link_sets`, `host_links` and `page_links` are made of.

Arrays are written in place; nothing here calls functions of other files.
"""

import numpy as np
from numpy.typing import NDArray

from crawl_platform.machine_code import compiled

Keys = NDArray[np.uint64]
Places = NDArray[np.int64]
Nodes = NDArray[np.uint32]
Octets = NDArray[np.uint8]
Flags = NDArray[np.bool_]
Counts = NDArray[np.integer]

_U = np.uint64
_V0, _V1 = _U(0x736F6D6570736575), _U(0x646F72616E646F6D)
_V2, _V3 = _U(0x6C7967656E657261), _U(0x7465646279746573)
_13, _16, _17, _21, _32 = _U(13), _U(16), _U(17), _U(21), _U(32)
_64, _56, _FF = _U(64), _U(56), _U(0xFF)


@compiled
def turned(value: np.uint64, by: np.uint64) -> np.uint64:
    """Rotated to the left."""
    return (value << by) | (value >> (_64 - by))


@compiled
def sip_round(
    v0: np.uint64, v1: np.uint64, v2: np.uint64, v3: np.uint64
) -> tuple[np.uint64, np.uint64, np.uint64, np.uint64]:
    v0 += v1
    v1 = turned(v1, _13) ^ v0
    v0 = turned(v0, _32)
    v2 += v3
    v3 = turned(v3, _16) ^ v2
    v0 += v3
    v3 = turned(v3, _21) ^ v0
    v2 += v1
    v1 = turned(v1, _17) ^ v2
    v2 = turned(v2, _32)
    return v0, v1, v2, v3


@compiled
def siphash(starts: Places, octets: Octets, secret: Keys, out: Keys) -> None:
    """SipHash-2-4 (Aumasson & Bernstein 2012) of each text octets[starts[i]:starts[i + 1]], with 128 secret bits."""
    for i in range(len(out)):
        v0, v1 = _V0 ^ secret[0], _V1 ^ secret[1]
        v2, v3 = _V2 ^ secret[0], _V3 ^ secret[1]
        at, end = starts[i], starts[i + 1]
        length = _U(end - at)
        while True:
            word = _U(0)
            last = at + 8 > end
            for j in range(end - at if last else 8):
                word |= _U(octets[at + j]) << _U(8 * j)
            if last:
                word |= (length & _FF) << _56
            v3 ^= word
            v0, v1, v2, v3 = sip_round(v0, v1, v2, v3)
            v0, v1, v2, v3 = sip_round(v0, v1, v2, v3)
            v0 ^= word
            at += 8
            if last:
                break
        v2 ^= _FF
        for _ in range(4):
            v0, v1, v2, v3 = sip_round(v0, v1, v2, v3)
        out[i] = v0 ^ v1 ^ v2 ^ v3


@compiled
def weave(
    before: Places,
    kept: Flags,
    old: tuple[Places, Nodes, Counts],
    fresh: tuple[Places, Nodes, Counts],
    new: tuple[Places, Nodes, Counts],
    largest: bool,
) -> int:
    """Rows of old and fresh targets into new ones; each row is sorted by target. Returns how many came out.

    A row r has its old targets (row before[r], if there is one) where kept[r], and its fresh ones. Of a target in both
    counts are added, or the `largest` is taken. Each of `old`, `fresh`, `new`: where rows end, targets, counts.
    """
    width, count = old[2].shape[1], 0
    for row in range(len(before)):
        was = before[row]
        a = a_end = 0
        if was >= 0 and kept[row]:
            a = old[0][was - 1] if was > 0 else 0
            a_end = old[0][was]
        b = fresh[0][row - 1] if row > 0 else 0
        b_end = fresh[0][row]
        if b == b_end:  # nothing to compare: most rows, copied in one run
            for e in range(a_end - a):
                new[1][count + e] = old[1][a + e]
            for e in range(a_end - a):
                for k in range(width):
                    new[2][count + e, k] = old[2][a + e, k]
            count += a_end - a
            a = a_end
        while a < a_end or b < b_end:
            from_old = a < a_end and (b >= b_end or old[1][a] <= fresh[1][b])
            if from_old:
                new[1][count] = old[1][a]
                for k in range(width):
                    new[2][count, k] = old[2][a, k]
                if b < b_end and fresh[1][b] == old[1][a]:
                    for k in range(width):
                        if not largest:
                            new[2][count, k] += fresh[2][b, k]
                        elif fresh[2][b, k] > new[2][count, k]:
                            new[2][count, k] = fresh[2][b, k]
                    b += 1
                a += 1
            else:
                new[1][count] = fresh[1][b]
                for k in range(width):
                    new[2][count, k] = fresh[2][b, k]
                b += 1
            count += 1
        new[0][row] = count
    return count


@compiled
def make_room(old: Nodes, at: Places, width: int, new: Nodes) -> None:
    """Copy elements of `width` words each, leaving room for one before each place `at` (sorted)."""
    begin = gap = 0
    for i in range(len(at) + 1):
        end = at[i] * width if i < len(at) else len(old)
        for e in range(begin, end):
            new[e + gap] = old[e]
        begin = end
        gap += width


@compiled
def latest(
    hosts: Nodes,
    moments: Places,
    ends: Places,
    targets: Nodes,
    asked: Keys,
    sources: Flags,
    sinks: Flags,
    found: Places,
) -> None:
    """found[i] = the latest moment of a row whose host links to a target, as the pair asked[i] says (sorted).

    `sources` and `sinks` tell which hosts are asked for at all, at either end.
    """
    for row in range(len(hosts)):
        if not sources[hosts[row]]:
            continue
        for e in range(ends[row - 1] if row > 0 else 0, ends[row]):
            if not sinks[targets[e]]:
                continue
            pair = (_U(hosts[row]) << _32) | _U(targets[e])
            low, high = 0, len(asked)
            while low < high:
                middle = (low + high) // 2
                if asked[middle] < pair:
                    low = middle + 1
                else:
                    high = middle
            if low < len(asked) and asked[low] == pair and moments[row] > found[low]:
                found[low] = moments[row]
