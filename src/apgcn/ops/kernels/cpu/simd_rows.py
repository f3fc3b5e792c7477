"""Operations on rows of floats that stay in SIMD registers, as LLVM IR.

A plain numba loop over the entries of a matrix row loads and stores the row of sums at every entry, because the
compiler cannot know that no other array overlaps it. These intrinsics, on which all CPU kernels are built, hold the row
in registers instead, and can prefetch. The results have the same bits. With plain numba loops in their place an
epoch of AP-GCN on Cora-ML takes 1.3 times as long (one thread, median of 60 epochs of each, in turns);
`benchmarks/simd_rows` measures it and `benchmarks/results/simd_rows.json` holds the record.

The arguments `width` and `prefetch` must be compile-time constants. Rows are contiguous, of `width` floats; indices,
`first` and `last` are unsigned.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

INT32, INT64, FLOAT, BYTE_POINTER = ir.IntType(32), ir.IntType(64), ir.FloatType(), ir.IntType(8).as_pointer()
PREFETCH_DISTANCE = 16  # entries between a prefetch and the use of its row
CACHE_LINE = 16  # floats
PREFETCH_SIZE = 2**21  # floats: arrays larger than this exceed a CPU's caches, so that prefetching pays
NO_PREFETCH = False  # for arrays that stay in the caches, such as the weights of a layer


@intrinsic(prefer_literal=True)
def gather(typing, width, prefetch, weights, indices, first, last, rows, total):
    """Set total to the sum of weights[e] * rows[indices[e]] over first <= e < last.

    With `prefetch`, each row is requested from memory some entries before it is used.

    Shapes
    ------
    weights, indices : (nnz,)
    rows : (any, width)
    total : (width,)
    """

    def generate(context, builder, signature, args):
        row_type = _row_type(signature)
        accumulator = cgutils.alloca_once_value(builder, ir.Constant(row_type, [0.0] * row_type.count))
        for weight, row in _entries(context, builder, signature, args):
            builder.store(_fma(builder, weight, _load(builder, row), builder.load(accumulator)), accumulator)
        _store(builder, builder.load(accumulator), _data(context, builder, signature, args, 7, row_type))
        return context.get_dummy_value()

    return types.void(width, prefetch, weights, indices, first, last, rows, total), generate


@intrinsic(prefer_literal=True)
def scatter(typing, width, prefetch, weights, indices, first, last, rows, source):
    """Add weights[e] * source to rows[indices[e]] for each first <= e < last; shapes as in `gather`."""

    def generate(context, builder, signature, args):
        source = _load(builder, _data(context, builder, signature, args, 7, _row_type(signature)))
        for weight, row in _entries(context, builder, signature, args):
            _store(builder, _fma(builder, weight, source, _load(builder, row)), row)
        return context.get_dummy_value()

    return types.void(width, prefetch, weights, indices, first, last, rows, source), generate


@intrinsic(prefer_literal=True)
def axpby(typing, width, a, x, b, y, output):
    """Set output to a * x + b * y for two numbers a and b and three rows, as `axpby` of BLAS does."""

    def generate(context, builder, signature, args):
        row_type = _row_type(signature)
        x, y, output = (_data(context, builder, signature, args, position, row_type) for position in (2, 4, 5))
        a, b = (_broadcast(builder, args[position], row_type) for position in (1, 3))
        b_y = builder.fmul(b, _load(builder, y), flags=("contract",))
        _store(builder, _fma(builder, a, _load(builder, x), b_y), output)
        return context.get_dummy_value()

    return types.void(width, a, x, b, y, output), generate


@intrinsic(prefer_literal=True)
def gather_axpby_dot(typing, width, prefetch, weights, indices, first, last, rows, a, b, y, output, weight):
    """Set output to a * x + b * y, with x the sum of `gather`, and return the sum of output * weight over the row.

    The width is a multiple of 8. All sums have one order.
    """

    def generate(context, builder, signature, args):
        row_type = _row_type(signature)
        accumulator = cgutils.alloca_once_value(builder, ir.Constant(row_type, [0.0] * row_type.count))
        for entry_weight, row in _entries(context, builder, signature, args):
            builder.store(_fma(builder, entry_weight, _load(builder, row), builder.load(accumulator)), accumulator)
        y, output, weight = (_data(context, builder, signature, args, position, row_type) for position in (9, 10, 11))
        a, b = (_broadcast(builder, args[position], row_type) for position in (7, 8))
        b_y = builder.fmul(b, _load(builder, y), flags=("contract",))
        result = _fma(builder, a, builder.load(accumulator), b_y)
        _store(builder, result, output)
        return _sum(builder, builder.fmul(result, _load(builder, weight)))

    signature = types.float32(width, prefetch, weights, indices, first, last, rows, a, b, y, output, weight)
    return signature, generate


@intrinsic(prefer_literal=True)
def add_axpby(typing, width, a, x, b, y, output):
    """Add a * x + b * y to output."""

    def generate(context, builder, signature, args):
        row_type = _row_type(signature)
        x, y, output = (_data(context, builder, signature, args, position, row_type) for position in (2, 4, 5))
        a, b = (_broadcast(builder, args[position], row_type) for position in (1, 3))
        total = _fma(builder, a, _load(builder, x), _load(builder, output))
        _store(builder, _fma(builder, b, _load(builder, y), total), output)
        return context.get_dummy_value()

    return types.void(width, a, x, b, y, output), generate


def _sum(builder: Any, row: Any) -> Any:
    """Emit the sum of a row whose width is a multiple of 8, in one order."""
    lanes = [_slice(builder, row, start, 8) for start in range(0, row.type.count, 8)]
    total = lanes[0]
    for lane in lanes[1:]:
        total = builder.fadd(total, lane)
    for count in (4, 2, 1):
        total = builder.fadd(_slice(builder, total, 0, count), _slice(builder, total, count, count))
    return builder.extract_element(total, ir.Constant(INT32, 0))


def _slice(builder: Any, row: Any, start: int, count: int) -> Any:
    """Emit the elements start, ..., start + count - 1 of a row."""
    positions = [ir.Constant(INT32, start + offset) for offset in range(count)]
    return builder.shuffle_vector(row, row, ir.Constant(ir.VectorType(INT32, count), positions))


def _row_type(signature: Any) -> ir.VectorType:
    """The vector type of a row; its width is the first argument of every intrinsic."""
    return ir.VectorType(FLOAT, signature.args[0].literal_value)


def _entries(context: Any, builder: Any, signature: Any, args: Any) -> Iterator[tuple[Any, Any]]:
    """Emit a loop over the entries; what the caller emits for the one yielded pair becomes the loop's body.

    The pair is the weight of an entry, broadcast to a row, and the pointer to the entry's row.
    """
    row_type, prefetch = _row_type(signature), signature.args[1].literal_value
    weights, indices, rows = (_data(context, builder, signature, args, position) for position in (2, 3, 6))
    first, last = (_to_int64(builder, args[position]) for position in (4, 5))
    with cgutils.for_range_slice(builder, first, last, ir.Constant(INT64, 1), INT64, inc=True) as (entry, _):
        if prefetch:
            end = builder.sub(_length(context, builder, signature, args, 3), ir.Constant(INT64, 1))
            later = builder.add(entry, ir.Constant(INT64, PREFETCH_DISTANCE))
            later = builder.select(builder.icmp_unsigned("<", later, end), later, end)
            _prefetch(builder, _row_pointer(builder, rows, indices, later, row_type), row_type.count)
        weight = builder.load(builder.gep(weights, [entry]))
        row = _row_pointer(builder, rows, indices, entry, row_type)
        yield _broadcast(builder, weight, row_type), builder.bitcast(row, row_type.as_pointer())


def _row_pointer(builder: Any, rows: Any, indices: Any, entry: Any, row_type: ir.VectorType) -> Any:
    """Emit the address of rows[indices[entry]]."""
    index = _to_int64(builder, builder.load(builder.gep(indices, [entry])))
    return builder.gep(rows, [builder.mul(index, ir.Constant(INT64, row_type.count))])


def _prefetch(builder: Any, pointer: Any, count: int) -> None:
    """Emit prefetches of `count` floats, one for each cache line."""
    function_type = ir.FunctionType(ir.VoidType(), [BYTE_POINTER, INT32, INT32, INT32])
    prefetch = cgutils.get_or_insert_function(builder.module, function_type, "llvm.prefetch.p0")
    for start in range(0, count, CACHE_LINE):
        line = builder.bitcast(builder.gep(pointer, [ir.Constant(INT64, start)]), BYTE_POINTER)
        builder.call(prefetch, [line, INT32(0), INT32(3), INT32(1)])  # for reading, into all caches, data


def _length(context: Any, builder: Any, signature: Any, args: Any, position: int) -> Any:
    """Emit the length of an array argument."""
    array = context.make_array(signature.args[position])(context, builder, args[position])
    return builder.extract_value(array.shape, 0)


def _broadcast(builder: Any, number: Any, row_type: ir.VectorType) -> Any:
    """Emit a row that repeats a number."""
    undefined = ir.Constant(row_type, ir.Undefined)
    first = builder.insert_element(undefined, number, ir.Constant(INT32, 0))
    zeros = ir.Constant(ir.VectorType(INT32, row_type.count), [0] * row_type.count)
    return builder.shuffle_vector(first, undefined, zeros)


def _data(context: Any, builder: Any, signature: Any, args: Any, position: int, element_type: Any = None) -> Any:
    """Emit the address of an array argument's data, optionally as a pointer to another type."""
    data = context.make_array(signature.args[position])(context, builder, args[position]).data
    return data if element_type is None else builder.bitcast(data, element_type.as_pointer())


def _fma(builder: Any, a: Any, x: Any, y: Any) -> Any:
    """Emit a * x + y as a multiplication and an addition that the compiler may fuse."""
    return builder.fadd(builder.fmul(a, x, flags=("contract",)), y, flags=("contract",))


def _load(builder: Any, pointer: Any) -> Any:
    row = builder.load(pointer)
    row.align = 4  # a row may begin at any float
    return row


def _store(builder: Any, row: Any, pointer: Any) -> None:
    builder.store(row, pointer).align = 4


def _to_int64(builder: Any, number: Any) -> Any:
    return number if number.type.width == 64 else builder.zext(number, INT64)
