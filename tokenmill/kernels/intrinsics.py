"""What NumPy arrays do not offer: items read and written without a check of the sign of their position, unaligned 64-bit loads,
128-bit products, bit counts, 64 bytes compared or copied at once, and arrays without reference counting.

Each comes twice: as a numba intrinsic (a few instructions, no bounds check, no call) and as a plain Python twin of the same name
that stands in when JIT is off. Positions are the caller's duty: eight bytes (or 64) must lie behind them in the buffer.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from numba import config, types
from numba.core import cgutils
from numba.extending import intrinsic
from numba.np.arrayobj import populate_array

if config.DISABLE_JIT:  # type: ignore[attr-defined]

    def borrow(value: Any) -> Any:
        """The same arrays, or tuple of arrays, without reference counting in kernels."""
        return value

    def flatten(rows: np.ndarray) -> np.ndarray:
        """The items of a two-dimensional array, row after row, borrowed as `borrow` does."""
        return rows.reshape(-1)

    def load_item(items: np.ndarray, position: int) -> Any:
        """`items[position]`, where the position is known not to be negative."""
        return items[position]

    def store_item(items: np.ndarray, position: int, value: Any) -> None:
        """`items[position] = value`, where the position is known not to be negative."""
        items[position] = value

    def prefetch_item(items: np.ndarray, position: int) -> None:
        """Ask for the cache line of an item; nothing waits for it."""

    def fold_product(first: np.uint64, second: np.uint64) -> np.uint64:
        """The two halves of a 128-bit product, one XOR the other: 2^63 and 6 give 3."""
        product = int(first) * int(second)
        return np.uint64((product >> 64) ^ (product & 0xFFFFFFFFFFFFFFFF))

    def load_u64(buffer: np.ndarray, position: int) -> np.uint64:
        """Eight bytes from `position` on as a little-endian number: the bytes `01 02 00 00 00 00 00 00` give 0x0201."""
        return np.uint64(int.from_bytes(buffer[position : position + 8].tobytes(), "little"))

    def store_u64(buffer: np.ndarray, position: int, value: np.uint64) -> None:
        """Write a number as eight bytes, the lowest first, from `position` on: 0x0201 writes `01 02 00 00 00 00 00 00`."""
        buffer[position : position + 8] = np.frombuffer(int(value).to_bytes(8, "little"), np.uint8)

    def shift_64_bytes(source: np.ndarray, start: int, target: np.ndarray, at: int, low: int, high: int, shift: int) -> None:
        """As `copy_64_bytes`, with `shift` added to each byte from `low` to `high`: `Ab` with 0x41, 0x5A, 0x20 becomes `ab`."""
        block = source[start : start + 64]
        target[at : at + 64] = block + np.uint8(shift) * ((block >= low) & (block <= high))

    def copy_64_bytes(source: np.ndarray, start: int, target: np.ndarray, at: int) -> None:
        """Copy 64 bytes from source[start] on to target[at] on: 64 bytes, or 16 int32."""
        count = 64 // source.itemsize
        target[at : at + count] = source[start : start + count]

    def count_trailing_zeros(value: np.uint64) -> int:
        """How many zero bits lie below the lowest set bit of a 64-bit number: 0b1000 gives 3, 0 gives 64."""
        number = int(value)
        return (number & -number).bit_length() - 1 if number else 64

    def count_leading_zeros(value: np.uint64) -> int:
        """How many zero bits lie above the highest set bit of a 64-bit number: 0b1000 gives 60, 0 gives 64."""
        return 64 - int(value).bit_length()

    def count_ones(value: np.uint64) -> int:
        """How many bits of a 64-bit number are set: 0b1011 gives 3."""
        return int(value).bit_count()

    def mark_bytes_between(buffer: np.ndarray, position: int, low: int, high: int) -> np.uint64:
        """Bit i tells whether low <= buffer[position + i] <= high, of 64 bytes: `a1b...` with 0x30, 0x39 gives 0b010..."""
        block = buffer[position : position + 64]
        return np.uint64(np.packbits((block >= low) & (block <= high), bitorder="little").view("<u8")[0])

else:
    _U64 = cgutils.ir.IntType(64)
    _BYTES_64 = cgutils.ir.VectorType(cgutils.ir.IntType(8), 64)

    def point_at(context: Any, builder: Any, array_type: Any, arguments: Any, kind: Any) -> Any:
        """LLVM pointer to item arguments[1] of the array arguments[0], as a pointer to one `kind`."""
        array = context.make_array(array_type)(context, builder, arguments[0])
        return builder.bitcast(builder.gep(array.data, [arguments[1]]), kind.as_pointer())

    def repeat(builder: Any, value: Any, kind: Any) -> Any:
        """Vector of type `kind`, all of its items `value`."""
        nothing = cgutils.ir.Constant(kind, None)
        first = builder.insert_element(nothing, value, cgutils.int32_t(0))
        zeros = cgutils.ir.Constant(cgutils.ir.VectorType(cgutils.int32_t, kind.count), None)
        return builder.shuffle_vector(first, nothing, zeros)

    def _repeat_byte(builder: Any, value: Any) -> Any:
        """Vector of 64 bytes, all of them the low byte of `value`."""
        return repeat(builder, builder.trunc(value, cgutils.ir.IntType(8)), _BYTES_64)

    def _compare_bytes(builder: Any, block: Any, low: Any, high: Any) -> Any:
        """Vector of 64 bits: which bytes of a block are from `low` to `high`."""
        lowest = _repeat_byte(builder, low)
        return builder.icmp_unsigned("<=", builder.sub(block, lowest), builder.sub(_repeat_byte(builder, high), lowest))

    def _order_bytes(builder: Any, value: Any) -> Any:
        """The number with its bytes in little-endian order, whatever the machine's own order."""
        return builder.bswap(value) if sys.byteorder == "big" else value

    def is_flat_array(buffer: Any) -> bool:
        return isinstance(buffer, types.Array) and buffer.ndim == 1 and buffer.layout == "C"

    def _is_byte_array(buffer: Any) -> bool:
        return is_flat_array(buffer) and buffer.dtype == types.uint8

    def _disown(context: Any, builder: Any, kind: Any, value: Any) -> Any:
        """The arrays in a value of type `kind` without their owner."""
        if isinstance(kind, types.Array):
            array = context.make_array(kind)(context, builder, value)
            array.meminfo = cgutils.get_null_value(array.meminfo.type)
            array.parent = cgutils.get_null_value(array.parent.type)
            return array._getvalue()
        if isinstance(kind, types.BaseTuple):
            kinds: Any = kind
            items = [_disown(context, builder, item, builder.extract_value(value, place)) for place, item in enumerate(kinds)]
            return context.make_tuple(builder, kind, items)
        return value

    @intrinsic
    def borrow(typingctx: Any, value: Any) -> Any:
        """The same arrays, or tuple of arrays, without reference counting in kernels.

        Numba counts a reference up and down, 15 ns with two locked instructions, nearly wherever a function takes an array or
        takes one out of a tuple. A kernel that Python calls borrows its arrays first: its caller holds them as long as it runs.
        What is borrowed must not be given back to Python.
        """

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return _disown(context, builder, signature.args[0], arguments[0])

        return value(value), generate

    def is_integer(kind: Any) -> bool:
        return isinstance(kind, types.Integer)

    @intrinsic
    def flatten(typingctx: Any, rows: Any) -> Any:
        """The items of a two-dimensional array, row after row, borrowed as `borrow` does."""
        if not (isinstance(rows, types.Array) and rows.ndim == 2 and rows.layout == "C"):
            return None
        flat = types.Array(rows.dtype, 1, "C", readonly=not rows.mutable, aligned=rows.aligned)

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            source = context.make_array(rows)(context, builder, arguments[0])
            target = context.make_array(flat)(context, builder)
            item_bytes = context.get_constant(types.intp, context.get_abi_sizeof(context.get_data_type(rows.dtype)))
            populate_array(target, source.data, [source.nitems], [item_bytes], item_bytes, None)
            return target._getvalue()

        return flat(rows), generate

    @intrinsic
    def load_item(typingctx: Any, items: Any, position: Any) -> Any:
        """`items[position]`, where the position is known not to be negative: two or three instructions less."""

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            kind = signature.args[0]
            pointer = point_at(context, builder, kind, arguments, context.get_data_type(kind.dtype))
            return context.unpack_value(builder, kind.dtype, pointer)

        if is_flat_array(items) and is_integer(position):
            return items.dtype(items, types.intp), generate
        return None

    @intrinsic
    def store_item(typingctx: Any, items: Any, position: Any, value: Any) -> Any:
        """`items[position] = value`, where the position is known not to be negative."""

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            kind = signature.args[0]
            pointer = point_at(context, builder, kind, arguments[:2], context.get_data_type(kind.dtype))
            context.pack_value(builder, kind.dtype, arguments[2], pointer)
            return context.get_dummy_value()

        if is_flat_array(items) and items.mutable and is_integer(position):
            return types.void(items, types.intp, items.dtype), generate
        return None

    @intrinsic
    def prefetch_item(typingctx: Any, items: Any, position: Any) -> Any:
        """Ask for the cache line of an item; nothing waits for it."""

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            kind = signature.args[0]
            pointer = point_at(context, builder, kind, arguments, context.get_data_type(kind.dtype))
            number = cgutils.int32_t
            signature_of_call = cgutils.ir.FunctionType(cgutils.ir.VoidType(), [cgutils.voidptr_t, number, number, number])
            prefetch = cgutils.get_or_insert_function(builder.module, signature_of_call, "llvm.prefetch.p0i8")
            # to read, keep it, data
            builder.call(prefetch, [builder.bitcast(pointer, cgutils.voidptr_t), number(0), number(3), number(1)])
            return context.get_dummy_value()

        if is_flat_array(items) and is_integer(position):
            return types.void(items, types.intp), generate
        return None

    @intrinsic
    def fold_product(typingctx: Any, first: Any, second: Any) -> Any:
        """The two halves of a 128-bit product, one XOR the other: 2^63 and 6 give 3."""

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            wide = cgutils.ir.IntType(128)
            product = builder.mul(*(builder.zext(number, wide) for number in arguments))
            return builder.xor(builder.trunc(builder.lshr(product, wide(64)), _U64), builder.trunc(product, _U64))

        return types.uint64(types.uint64, types.uint64), generate

    @intrinsic
    def load_u64(typingctx: Any, buffer: Any, position: Any) -> Any:
        """Eight bytes from `position` on as a little-endian number: the bytes `01 02 00 00 00 00 00 00` give 0x0201."""

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            pointer = point_at(context, builder, signature.args[0], arguments, _U64)
            return _order_bytes(builder, builder.load(pointer, align=1))

        if _is_byte_array(buffer) and isinstance(position, types.Integer):
            return types.uint64(buffer, types.intp), generate
        return None

    @intrinsic
    def store_u64(typingctx: Any, buffer: Any, position: Any, value: Any) -> Any:
        """Write a number as eight bytes, the lowest first, from `position` on: 0x0201 writes `01 02 00 00 00 00 00 00`."""

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            pointer = point_at(context, builder, signature.args[0], arguments[:2], _U64)
            builder.store(_order_bytes(builder, arguments[2]), pointer, align=1)
            return context.get_dummy_value()

        if _is_byte_array(buffer) and buffer.mutable:
            return types.void(buffer, types.intp, types.uint64), generate
        return None

    @intrinsic
    def shift_64_bytes(typingctx: Any, source: Any, start: Any, target: Any, at: Any, low: Any, high: Any, shift: Any) -> Any:
        """As `copy_64_bytes`, with `shift` added to each byte from `low` to `high`: `Ab` with 0x41, 0x5A, 0x20 becomes `ab`."""

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            pointer = point_at(context, builder, signature.args[0], arguments[:2], _BYTES_64)
            target_pointer = point_at(context, builder, signature.args[2], arguments[2:4], _BYTES_64)
            block = builder.load(pointer, align=1)
            inside = _compare_bytes(builder, block, arguments[4], arguments[5])
            added = builder.and_(builder.sext(inside, _BYTES_64), _repeat_byte(builder, arguments[6]))
            builder.store(builder.add(block, added), target_pointer, align=1)
            return context.get_dummy_value()

        if _is_byte_array(source) and _is_byte_array(target) and target.mutable:
            return types.void(source, types.intp, target, types.intp, types.int64, types.int64, types.int64), generate
        return None

    @intrinsic
    def copy_64_bytes(typingctx: Any, source: Any, start: Any, target: Any, at: Any) -> Any:
        """Copy 64 bytes from source[start] on to target[at] on: 64 bytes, or 16 int32."""

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            pointer = point_at(context, builder, signature.args[0], arguments[:2], _BYTES_64)
            target_pointer = point_at(context, builder, signature.args[2], arguments[2:], _BYTES_64)
            builder.store(builder.load(pointer, align=1), target_pointer, align=1)
            return context.get_dummy_value()

        if is_flat_array(source) and is_flat_array(target) and source.dtype == target.dtype and target.mutable:
            return types.void(source, types.intp, target, types.intp), generate
        return None

    @intrinsic
    def count_trailing_zeros(typingctx: Any, value: Any) -> Any:
        """How many zero bits lie below the lowest set bit of a 64-bit number: 0b1000 gives 3, 0 gives 64."""

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return builder.cttz(arguments[0], cgutils.false_bit)

        return types.int64(types.uint64), generate

    @intrinsic
    def count_leading_zeros(typingctx: Any, value: Any) -> Any:
        """How many zero bits lie above the highest set bit of a 64-bit number: 0b1000 gives 60, 0 gives 64."""

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return builder.ctlz(arguments[0], cgutils.false_bit)

        return types.int64(types.uint64), generate

    @intrinsic
    def count_ones(typingctx: Any, value: Any) -> Any:
        """How many bits of a 64-bit number are set: 0b1011 gives 3."""

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return builder.ctpop(arguments[0])

        return types.int64(types.uint64), generate

    @intrinsic
    def mark_bytes_between(typingctx: Any, buffer: Any, position: Any, low: Any, high: Any) -> Any:
        """Bit i tells whether low <= buffer[position + i] <= high, of 64 bytes: `a1b...` with 0x30, 0x39 gives 0b010...

        Written as one comparison of vectors, which LLVM lowers to what the machine has (on AVX2 two registers and a move-mask).
        """

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            pointer = point_at(context, builder, signature.args[0], arguments, _BYTES_64)
            inside = _compare_bytes(builder, builder.load(pointer, align=1), arguments[2], arguments[3])
            return builder.bitcast(inside, _U64)

        if _is_byte_array(buffer) and isinstance(position, types.Integer):
            return types.uint64(buffer, types.intp, types.int64, types.int64), generate
        return None
