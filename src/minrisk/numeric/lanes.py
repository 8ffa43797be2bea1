"""Vectors of LANES floats inside numba kernels: one small linear system per lane.

A kernel that solves many little systems of equal size keeps element e of all of them side by side, at `[e * LANES]` of
a flat array, and does every step for all lanes at once. Plain inner loops over the lanes do the same arithmetic, but
the compiler must then fear that arrays overlap and keeps every intermediate value in memory: three to four times
slower. LLVM splits the vectors to whatever the processor offers.
"""

# ruff: noqa: ARG001, D403 -- numba prescribes the arguments; docstrings are formulas

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.errors import TypingError
from numba.extending import intrinsic, models, register_model

LANES = 16
"""Several registers wide, so that independent chains of arithmetic hide the latency of each; 8 is slower."""

_VECTOR = ir.VectorType(ir.DoubleType(), LANES)
_WORD = 8  # bytes to which the arrays are aligned


class _Lanes(types.Type):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__(name=f"Lanes({LANES})")


_lanes = _Lanes()


@register_model(_Lanes)
class _LanesModel(models.PrimitiveModel):  # type: ignore[misc]
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, _VECTOR)


def _address(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    array = context.make_array(signature.args[0])(context, builder, arguments[0])
    return builder.bitcast(builder.gep(array.data, [arguments[1]]), _VECTOR.as_pointer())


def _function(builder: Any, name: str, operands: int) -> Any:
    kind = ir.FunctionType(_VECTOR, [_VECTOR] * operands)
    return cgutils.get_or_insert_function(builder.module, kind, f"llvm.{name}.v{LANES}f64")


Generator = Callable[[Any, Any, Any, Any], Any]


def _check_contiguous(*arrays: Any) -> None:
    """A TypingError when a kernel is compiled for an array with gaps, which addresses here do not know of."""
    if any(array.layout != "C" for array in arrays):
        raise TypingError(f"expected contiguous arrays, got {arrays}")


@intrinsic
def load(typing: Any, array: Any, start: Any) -> tuple[Any, Generator]:
    """The vector array[start : start + LANES]."""
    _check_contiguous(array)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        vector = builder.load(_address(context, builder, signature, arguments))
        vector.align = _WORD
        return vector

    return _lanes(array, types.intp), generate


@intrinsic
def pick(typing: Any, array: Any, places: Any, start: Any) -> tuple[Any, Generator]:
    """The vector array[places[start : start + LANES]]; places are not checked and count from the front only."""
    _check_contiguous(array, places)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        numbers = context.make_array(signature.args[1])(context, builder, arguments[1]).data
        vector = ir.Constant(_VECTOR, ir.Undefined)
        for lane in range(LANES):
            at = builder.add(arguments[2], ir.Constant(arguments[2].type, lane))
            place = builder.load(builder.gep(numbers, [at]))
            element = builder.load(builder.gep(data, [place]))
            vector = builder.insert_element(vector, element, ir.Constant(ir.IntType(32), lane))
        return vector

    return _lanes(array, places, types.intp), generate


@intrinsic
def store(typing: Any, array: Any, start: Any, vector: Any) -> tuple[Any, Generator]:
    """array[start : start + LANES] = vector."""
    _check_contiguous(array)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        builder.store(arguments[2], _address(context, builder, signature, arguments)).align = _WORD
        return context.get_dummy_value()

    return types.void(array, types.intp, _lanes), generate


@intrinsic
def spread(typing: Any, value: Any) -> tuple[Any, Generator]:
    """The vector with `value` in every lane."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        undefined = ir.Constant(_VECTOR, ir.Undefined)
        first = builder.insert_element(undefined, arguments[0], ir.Constant(ir.IntType(32), 0))
        places = ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES)
        return builder.shuffle_vector(first, undefined, places)

    return _lanes(types.float64), generate


@intrinsic
def plus_product(typing: Any, total: Any, left: Any, right: Any) -> tuple[Any, Generator]:
    """total + left * right, fused where the processor can."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        total, left, right = arguments
        return builder.call(_function(builder, "fmuladd", 3), [left, right, total])

    return _lanes(_lanes, _lanes, _lanes), generate


@intrinsic
def minus_product(typing: Any, total: Any, left: Any, right: Any) -> tuple[Any, Generator]:
    """total - left * right."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        total, left, right = arguments
        return builder.call(_function(builder, "fmuladd", 3), [builder.fneg(left), right, total])

    return _lanes(_lanes, _lanes, _lanes), generate


@intrinsic
def product(typing: Any, left: Any, right: Any) -> tuple[Any, Generator]:
    """left * right."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.fmul(*arguments)

    return _lanes(_lanes, _lanes), generate


@intrinsic
def inverse_root(typing: Any, vector: Any) -> tuple[Any, Generator]:
    """1 / sqrt(vector)."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        root = builder.call(_function(builder, "sqrt", 1), arguments)
        return builder.fdiv(ir.Constant(_VECTOR, [1.0] * LANES), root)

    return _lanes(_lanes), generate


@intrinsic
def total(typing: Any, vector: Any) -> tuple[Any, Generator]:
    """The sum over the lanes."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kind = ir.FunctionType(ir.DoubleType(), [ir.DoubleType(), _VECTOR])
        name = f"llvm.vector.reduce.fadd.v{LANES}f64"
        function = cgutils.get_or_insert_function(builder.module, kind, name)
        return builder.call(function, [ir.Constant(ir.DoubleType(), 0.0), arguments[0]])

    return types.float64(_lanes), generate


@numba.njit(cache=True, nogil=True)
def factorize(matrices: Any, size: int) -> None:
    """Cholesky factors of LANES symmetric matrices, in place, with the reciprocals of their diagonals.

    matrices  flat lower triangles, row by row: element (i, j <= i) at [(i (i + 1) / 2 + j) * LANES]
    """
    for i in range(size):
        row = i * (i + 1) // 2
        for j in range(i + 1):
            other = j * (j + 1) // 2
            element = load(matrices, (row + j) * LANES)
            for k in range(j):
                element = minus_product(element, load(matrices, (row + k) * LANES), load(matrices, (other + k) * LANES))
            element = inverse_root(element) if i == j else product(element, load(matrices, (other + j) * LANES))
            store(matrices, (row + j) * LANES, element)


@numba.njit(cache=True, nogil=True)
def forward(factors: Any, sides: Any, size: int) -> None:
    """L y = side for every lane, in place, given the factors of `factorize`; element i of a side at [i * LANES]."""
    for i in range(size):
        row = i * (i + 1) // 2
        element = load(sides, i * LANES)
        for k in range(i):
            element = minus_product(element, load(factors, (row + k) * LANES), load(sides, k * LANES))
        store(sides, i * LANES, product(element, load(factors, (row + i) * LANES)))


@numba.njit(cache=True, nogil=True)
def backward(factors: Any, sides: Any, size: int) -> None:
    """L' x = side for every lane, in place: with `forward` before it, the solution of the system."""
    for i in range(size - 1, -1, -1):
        element = load(sides, i * LANES)
        for k in range(i + 1, size):
            below = k * (k + 1) // 2 + i
            element = minus_product(element, load(factors, below * LANES), load(sides, k * LANES))
        store(sides, i * LANES, product(element, load(factors, (i * (i + 1) // 2 + i) * LANES)))
