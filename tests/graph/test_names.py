"""Names as numbers: keys, and ids that stay."""

import numpy as np
import pyarrow as pa

from crawl_platform.graph.link_kernels import siphash
from crawl_platform.graph.names import Names, keys_of

SECRET = np.array([1, 2], np.uint64)


def learnt(names: Names, *texts: str) -> Names:
    given = pa.array(texts, pa.string())
    return names.learnt(keys_of(given, SECRET), given)


def ids(names: Names, *texts: str) -> list[int]:
    return names.of(keys_of(pa.array(texts, pa.string()), SECRET)).tolist()


def test_siphash_of_the_paper():
    """Appendix A: octets 0 to 14 with a key of octets 0 to 15."""
    secret, found = np.arange(16, dtype=np.uint8).view(np.uint64), np.zeros(1, np.uint64)

    siphash(np.array([0, 15]), np.arange(15, dtype=np.uint8), secret, found)

    assert found[0] == 0xA129CA6149BE45E5


def test_a_key_depends_on_the_whole_name_and_on_the_secret():
    names = pa.array(["", "a", "a\0", "12345678", "123456789", "é" * 100, None])

    keys, others = (keys_of(names, np.array([1, last], np.uint64)) for last in (2, 3))

    assert len({*keys.tolist(), *others.tolist()}) == 13
    assert keys[-1] == 0
    assert keys_of(names.slice(2, 3), SECRET).tolist() == keys[2:5].tolist()


def test_ids_are_given_in_the_order_of_names_and_stay():
    before = learnt(Names(), "c", "a", "c", "b")
    after = learnt(before, "d", "a")

    assert ids(before, "c", "a", "b") == ids(after, "c", "a", "b") == [0, 1, 2]
    assert ids(after, "d") == [3]
    assert after.texts.to_pylist() == ["c", "a", "b", "d"]


def test_the_id_of_a_name_that_left_is_not_given_again():
    names = learnt(Names(), "a", "b", "c").without(np.array([False, True, False]))

    again = learnt(names, "d", "b")

    assert again.texts.to_pylist() == ["a", "", "c", "d", "b"]
    assert ids(again, "a", "c", "d", "b") == [0, 2, 3, 4]
