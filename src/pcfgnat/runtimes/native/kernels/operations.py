"""Operations: parts of networks that are compiled once each, and that call each other by address.

What numba compiles contains all that it calls, so that a product of matrices would be compiled again for
every network. An operation is a C function of 64-bit integers instead: addresses, sizes, strides in bytes.
The first is always the address of the table of operations, by which others are found.
"""

import inspect
from collections.abc import Callable, Sequence
from functools import cache
from importlib import import_module
from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.core.base import BaseContext
from numba.core.ccallback import CFunc
from numba.core.typing.templates import Signature
from numba.extending import intrinsic

from pcfgnat.grammar.compiled import KernelCache
from pcfgnat.runtimes.native.kernels.vectors import LONG

# Places in the table, which compiled code knows: the modules that define operations, and their names.
MODULES = {
    "products": ("linear", "multiply", "transpose", "gather_panels"),
    "rows": ("norm_rows", "byte_rows", "activate_rows", "embed_rows", "blank_rows"),
    "attention": ("attend",),
    "layers": ("feed_forward", "look", "remember", "run_layers"),
    "rules": ("node_vectors", "score_rules", "prefix_rules"),
    "output": ("best_tokens", "choose_types", "pack_types", "score_tokens"),
}
NAMES = tuple(name for names in MODULES.values() for name in names)
OPTIONS = {"nopython": True, "error_model": "numpy", "fastmath": {"contract", "nsz"}}

_FUNCTIONS: dict[str, tuple[Callable[..., Any], types.Type]] = {}


def operation(result: types.Type = types.void) -> Callable[[Callable[..., Any]], Any]:
    """Return a decorator that makes an operation of a function; others call it as if it were one."""

    def register(function: Callable[..., Any]) -> Any:
        place, count = NAMES.index(function.__name__), len(inspect.signature(function).parameters)
        _FUNCTIONS[function.__name__] = (function, result)
        returned = ir.VoidType() if result is types.void else LONG

        @intrinsic
        def call(typing: object, *arguments: types.Type) -> tuple[Signature, object]:
            if len(arguments) != count:
                raise TypeError(f"{function.__name__} takes {count} integers, got {len(arguments)}")
            if any(not isinstance(argument, types.Integer | types.Boolean) for argument in arguments):
                raise TypeError(f"{function.__name__} takes integers only, got {arguments}")

            def generate(
                context: BaseContext, builder: ir.IRBuilder, signature: Signature, values: Sequence[ir.Value]
            ) -> ir.Value:
                given = cgutils.unpack_tuple(builder, values[0])
                slot = builder.add(given[0], ir.Constant(LONG, 8 * place))
                address = builder.load(builder.inttoptr(slot, LONG.as_pointer()))
                kind = ir.FunctionType(returned, [LONG] * count)
                found = builder.call(builder.inttoptr(address, kind.as_pointer()), given)
                return context.get_dummy_value() if result is types.void else found

            return result(types.StarArgTuple(arguments)), generate

        return call

    return register


@cache
def operations() -> np.ndarray:
    """Return the table of addresses; whoever passes its address on must keep it."""
    for module in MODULES:
        import_module(f"pcfgnat.runtimes.native.kernels.{module}")
    return np.array([_compiled(name).address for name in NAMES], dtype=np.int64)


@cache
def _compiled(name: str) -> Any:
    """Compile an operation, or load it; what it was compiled to lives as long as this process."""
    function, result = _FUNCTIONS[name]
    count = len(inspect.signature(function).parameters)
    signature = (types.int64,) * count, result
    compiled: Any = CFunc(function, signature, locals={}, options=dict(OPTIONS))
    compiled._cache = KernelCache(function)
    compiled.compile()
    return compiled
