"""How does a loop keep a whole row of floats in the processor's registers?

numba's loops fetch and store the row at every turn, because they cannot know that it is not changed from elsewhere. So
these few, in which all loops here end, are written in the compiler's own language; they are up to four times as fast.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

INDEX, FLOAT = ir.IntType(64), ir.FloatType()
AHEAD = 16  # entries: their rows are asked for before they are needed
LINE = 16  # floats come from memory together
LARGE = 2**21  # floats do not stay in a processor's caches
SMALL = False  # a weight, which stays there


@intrinsic(prefer_literal=True)
def gather(typing, width, large, weights, columns, first, last, rows, total):
    """total = the sum of weights[e] * rows[columns[e]] over e = first..last - 1.

    `rows` is contiguous, of shape (any, width), and columns, first and last have no sign. Width and large are known to
    the compiler. Where there are so many rows that they are large, each is asked for some entries ahead: memory is far.
    """

    def generate(context, builder, signature, arguments):
        row = _row_type(signature)
        held = cgutils.alloca_once_value(builder, ir.Constant(row, [0.0] * row.count))
        for weight, place in _entries(context, builder, signature, arguments):
            builder.store(_sum(builder, weight, _fetch(builder, place), builder.load(held)), held)
        _store(builder, builder.load(held), _data(context, builder, signature, arguments, 7, row))
        return context.get_dummy_value()

    return types.void(width, large, weights, columns, first, last, rows, total), generate


@intrinsic(prefer_literal=True)
def scatter(typing, width, large, weights, columns, first, last, rows, given):
    """rows[columns[e]] += weights[e] * given for each e = first..last - 1; see `gather`."""

    def generate(context, builder, signature, arguments):
        held = _fetch(builder, _data(context, builder, signature, arguments, 7, _row_type(signature)))
        for weight, place in _entries(context, builder, signature, arguments):
            _store(builder, _sum(builder, weight, held, _fetch(builder, place)), place)
        return context.get_dummy_value()

    return types.void(width, large, weights, columns, first, last, rows, given), generate


@intrinsic(prefer_literal=True)
def blend(typing, width, u, x, v, y, into):
    """into = u * x + v * y, for two numbers and three rows of a width that is known to the compiler."""

    def generate(context, builder, signature, arguments):
        row = _row_type(signature)
        x, y, into = (_data(context, builder, signature, arguments, number, row) for number in (2, 4, 5))
        u, v = (_everywhere(builder, arguments[number], row) for number in (1, 3))
        other = builder.fmul(v, _fetch(builder, y), flags=("contract",))
        _store(builder, _sum(builder, u, _fetch(builder, x), other), into)
        return context.get_dummy_value()

    return types.void(width, u, x, v, y, into), generate


def _row_type(signature: Any) -> ir.VectorType:
    return ir.VectorType(FLOAT, signature.args[0].literal_value)


def _entries(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    """Write a loop over the entries; what the caller writes for the one pair yielded becomes the loop's body.

    The pair is an entry's weight, as often as a row is wide, and the place of its row.
    """
    row, large = _row_type(signature), signature.args[1].literal_value
    weights, columns, rows = (_data(context, builder, signature, arguments, number) for number in (2, 3, 6))
    first, last = (_long(builder, arguments[number]) for number in (4, 5))
    with cgutils.for_range_slice(builder, first, last, ir.Constant(INDEX, 1), INDEX, inc=True) as (entry, _):
        if large:
            end = builder.sub(_length(context, builder, signature, arguments, 3), ir.Constant(INDEX, 1))
            later = builder.add(entry, ir.Constant(INDEX, AHEAD))
            later = builder.select(builder.icmp_unsigned("<", later, end), later, end)
            _ask_for(builder, _row(builder, rows, columns, later, row), row.count)
        weight = builder.load(builder.gep(weights, [entry]))
        place = _row(builder, rows, columns, entry, row)
        yield _everywhere(builder, weight, row), builder.bitcast(place, row.as_pointer())


def _row(builder: Any, rows: Any, columns: Any, entry: Any, row: ir.VectorType) -> Any:
    """Where the row of an entry's column begins."""
    column = _long(builder, builder.load(builder.gep(columns, [entry])))
    return builder.gep(rows, [builder.mul(column, ir.Constant(INDEX, row.count))])


def _ask_for(builder: Any, place: Any, count: int) -> None:
    """Have so many floats brought near."""
    number = ir.IntType(32)
    kind = ir.FunctionType(ir.VoidType(), [ir.IntType(8).as_pointer(), number, number, number])
    prefetch = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
    for start in range(0, count, LINE):
        line = builder.bitcast(builder.gep(place, [ir.Constant(INDEX, start)]), ir.IntType(8).as_pointer())
        builder.call(prefetch, [line, number(0), number(3), number(1)])  # to be read, kept near, data


def _length(context: Any, builder: Any, signature: Any, arguments: Any, number: int) -> Any:
    array = context.make_array(signature.args[number])(context, builder, arguments[number])
    return builder.extract_value(array.shape, 0)


def _everywhere(builder: Any, number: Any, row: ir.VectorType) -> Any:
    """A row of the same number."""
    nothing = ir.Constant(row, ir.Undefined)
    alone = builder.insert_element(nothing, number, ir.Constant(ir.IntType(32), 0))
    return builder.shuffle_vector(
        alone, nothing, ir.Constant(ir.VectorType(ir.IntType(32), row.count), [0] * row.count)
    )


def _data(context: Any, builder: Any, signature: Any, arguments: Any, number: int, kind: Any = None) -> Any:
    """Where the values of an array among the arguments are."""
    data = context.make_array(signature.args[number])(context, builder, arguments[number]).data
    return data if kind is None else builder.bitcast(data, kind.as_pointer())


def _sum(builder: Any, weight: Any, x: Any, y: Any) -> Any:
    """weight * x + y, in one operation."""
    return builder.fadd(builder.fmul(weight, x, flags=("contract",)), y, flags=("contract",))


def _fetch(builder: Any, place: Any) -> Any:
    fetched = builder.load(place)
    fetched.align = 4  # rows begin at any float
    return fetched


def _store(builder: Any, value: Any, place: Any) -> None:
    builder.store(value, place).align = 4


def _long(builder: Any, number: Any) -> Any:
    return number if number.type.width == 64 else builder.zext(number, INDEX)
