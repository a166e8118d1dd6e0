"""Memory at an address, for machine code: the tree's nodes are C structures (see `tree`). A page has thousands of nodes
and a hundred thousand octets, and Python takes a microsecond for each step over one of them.

Whoever calls these has to keep the memory alive.
"""

from collections.abc import Callable
from typing import Any, cast

import numpy as np
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic


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
