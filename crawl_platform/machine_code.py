"""Functions compiled to machine code, and where that is kept.

Numba compiles functions of integers and arrays when they are first called, which takes some ten seconds in all
(`make setup` does it, by `python -m crawl_platform.digest`), and keeps them in `cache_folder`. Such functions raise
nothing and allocate next to nothing: they write into arrays that they are handed, and stop at their ends.
"""

import os
import shutil
import tempfile
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
from xxhash import xxh3_64

_F = TypeVar("_F", bound=Callable[..., Any])
_HERE = Path(__file__).parent
_PREFIX = "machine-code-"


def _key() -> str:
    """Of all that the digest's code depends on. Numba itself looks at the one file that a function stands in, which
    is enough for `graph/kernels.py`: its functions call none of other files."""
    check = xxh3_64(f"{numba.__version__} {version('selectolax')}".encode())
    for source in (_HERE / "machine_code.py", *sorted(_HERE.glob("digest/*.py"))):
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
