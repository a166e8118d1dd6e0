"""Loops over octets and over Lexbor's tree, as machine code.

Theory of operation. A page has thousands of nodes and a hundred thousand octets, and Python takes a microsecond for
each step over one of them. Numba compiles functions of integers and arrays when they are first called, which takes
some ten seconds in all (`make setup` does it, by `python -m crawl_platform.digest`), and keeps them in `cache_folder`.
Such functions raise nothing and allocate next to nothing: they write into arrays that they are handed, and stop at
their ends.

`octet`, `half` and `word` read memory at an address: the tree's nodes are C structures (see `tree`). Whoever calls
them has to keep the memory alive.
"""

import os
import shutil
import tempfile
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
import numpy as np
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic
from xxhash import xxh3_64

_F = TypeVar("_F", bound=Callable[..., Any])
_HERE = Path(__file__).parent
_PREFIX = "machine-code-"


def _key() -> str:
    """Of all that the code depends on. Numba itself looks at the one file that a function stands in."""
    check = xxh3_64(f"{numba.__version__} {version('selectolax')}".encode())
    for source in sorted(_HERE.glob("*.py")):
        check.update(source.read_bytes())
    return check.hexdigest()


def cache_folder() -> Path:
    """Where compiled functions are kept: in the folder that NUMBA_CACHE_DIR names; else beside their source; where that
    can't be written, in a folder of this user's own among the temporary ones, with what was compiled beside the source.
    """
    name = _PREFIX + _key()
    given = os.environ.get("NUMBA_CACHE_DIR")
    beside = Path(given) / name if given else _HERE / "__pycache__" / name
    if given or os.access(_HERE, os.W_OK):
        return beside
    own = Path(tempfile.gettempdir()) / f"crawl-{os.getuid()}-{name}"
    own.mkdir(mode=0o700, exist_ok=True)
    told = own.stat()
    if told.st_uid != os.getuid() or told.st_mode & 0o077:
        # Machine code is run as it is found: none that others could have written.
        own = Path(tempfile.mkdtemp(prefix="crawl-"))
    for folder in beside.iterdir() if beside.is_dir() else ():
        shutil.copytree(folder, own / folder.name, dirs_exist_ok=True)
    return own


def forget_others() -> None:
    """Remove what was compiled of other versions of the source."""
    kept = cache_folder()
    for folder in kept.parent.glob(f"{_PREFIX}*"):
        if folder != kept:
            shutil.rmtree(folder)


FOLDER = cache_folder()
numba.config.CACHE_DIR = str(FOLDER)  # type: ignore[attr-defined]


def is_compiled() -> bool:
    """Whether there is code to load; else the first pages wait until it has been made."""
    return any(FOLDER.rglob("*.nbc"))


def compiled(function: _F) -> _F:
    """`function` as machine code. Its arguments are 64-bit integers and contiguous arrays of numbers."""
    return cast(_F, numba.njit(cache=True, nogil=True)(function))


def _load(width: int, found: Any) -> Any:
    def typed(context: Any, address: Any) -> Any:
        def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            kind = ir.IntType(width)
            value = builder.load(builder.inttoptr(arguments[0], kind.as_pointer()), align=1)
            return value if width == 64 else builder.zext(value, ir.IntType(64))

        return found(types.int64), emit

    return intrinsic(typed)


def _store(context: Any, address: Any, value: Any) -> Any:
    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        place = builder.inttoptr(arguments[0], ir.IntType(64).as_pointer())
        builder.store(arguments[1], place, align=1)
        return context.get_dummy_value()

    return types.void(types.int64, types.uint64), emit


octet: Callable[[int], int] = _load(8, types.int64)
"""The octet at an address."""
half: Callable[[int], int] = _load(32, types.int64)
"""The 32-bit number at an address."""
word: Callable[[int], int] = _load(64, types.int64)
"""The 64-bit number at an address, signed."""
eight: Callable[[int], Any] = _load(64, types.uint64)
"""The eight octets at an address, the first lowest."""
put_eight: Callable[[int, Any], None] = cast(Any, intrinsic(_store))
"""Write eight octets at an address."""

whole: Callable[[Any], int] = cast(Any, np.int64)
"""An octet or a flag as a signed number: arithmetic of unsigned ones is another."""
