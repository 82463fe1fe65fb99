"""Sixteen numbers at once: what the merging of a word and the cache of words ask of vectors.

As in `intrinsics.py`, each comes twice: as a numba intrinsic and as a plain Python twin that stands in when JIT is off.
Positions are the caller's duty.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from numba import config, types
from numba.core import cgutils
from numba.extending import intrinsic

from tokenmill.kernels import intrinsics

if config.DISABLE_JIT:  # type: ignore[attr-defined]

    def unpack_six(numbers: np.ndarray, position: int, items: np.ndarray, at: int) -> None:
        """Write the six times 20 bits of two uint64 to items[at : at + 6], the lowest first, and two int32 more of no meaning."""
        both = int(numbers[position]) | int(numbers[position + 1]) << 64
        items[at : at + 6] = [both >> 20 * place & 0xFFFFF for place in range(6)]

    def lowest_match_of_16(items: np.ndarray, position: int, key: np.uint32, shift: np.uint32) -> np.uint32:
        """The least of the low `shift` bits of those among 16 uint32 whose other bits are the key; all ones if there is none."""
        block = items[position : position + 16]
        below = block[block >> shift == key] & np.uint32((1 << int(shift)) - 1)
        return below.min(initial=np.uint32(0xFFFFFFFF))

    def lowest_of_16(items: np.ndarray, position: int) -> np.uint32:
        """The lowest of 16 items, which are uint32."""
        return items[position : position + 16].min()

    def lowest_other_of_16(items: np.ndarray, position: int, one: int, two: int, three: int) -> np.uint32:
        """The lowest of the 16 uint32 from `position` on but those at three positions; all ones if there is no other."""
        others = [items[place] for place in range(position, position + 16) if place not in (one, two, three)]
        return min(others)

else:
    _BYTES_16 = cgutils.ir.VectorType(cgutils.ir.IntType(8), 16)
    _EIGHT_I32 = cgutils.ir.VectorType(cgutils.int32_t, 8)
    _INDICES_32 = cgutils.ir.VectorType(cgutils.int32_t, 32)
    _BYTE_FLIP, _BYTE_ORDER = (0, (0, 1, 2, 3)) if sys.byteorder == "little" else (7, (3, 2, 1, 0))
    _SIXTEEN_U32 = cgutils.ir.VectorType(cgutils.int32_t, 16)
    _ALL_ONES = cgutils.ir.Constant(_SIXTEEN_U32, [cgutils.int32_t(-1)] * 16)
    _COUNTING = cgutils.ir.Constant(_SIXTEEN_U32, [cgutils.int32_t(lane) for lane in range(16)])

    def _reduce(builder: Any, operation: str, vector: Any, kind: Any, suffix: str) -> Any:
        """All items of a vector by an operation of LLVM: "or", "umin"."""
        name = f"llvm.vector.reduce.{operation}.{suffix}"
        reduction = cgutils.get_or_insert_function(builder.module, cgutils.ir.FunctionType(kind.element, [kind]), name)
        return builder.call(reduction, [vector])

    @intrinsic
    def unpack_six(typingctx: Any, numbers: Any, position: Any, items: Any, at: Any) -> Any:
        """Write the six times 20 bits of two uint64 to items[at : at + 6], the lowest first, and two int32 more of no meaning."""
        starts = [20 * place for place in range(6)] + [0, 0]
        order = [(start // 8 + byte) ^ _BYTE_FLIP for start in starts for byte in _BYTE_ORDER]

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            pointer = intrinsics.point_at(context, builder, signature.args[0], arguments[:2], _BYTES_16)
            target = intrinsics.point_at(context, builder, signature.args[2], arguments[2:], _EIGHT_I32)
            both = builder.load(pointer, align=8)
            spread = builder.shuffle_vector(both, both, cgutils.ir.Constant(_INDICES_32, order))
            shifted = builder.lshr(builder.bitcast(spread, _EIGHT_I32), cgutils.ir.Constant(_EIGHT_I32, [n % 8 for n in starts]))
            builder.store(builder.and_(shifted, cgutils.ir.Constant(_EIGHT_I32, [0xFFFFF] * 8)), target, align=4)
            return context.get_dummy_value()

        if intrinsics.is_flat_array(numbers) and intrinsics.is_flat_array(items) and items.mutable and items.dtype == types.int32:
            return types.void(numbers, types.intp, items, types.intp), generate
        return None

    @intrinsic
    def lowest_match_of_16(typingctx: Any, items: Any, position: Any, key: Any, shift: Any) -> Any:
        """The least of the low `shift` bits of those among 16 uint32 whose other bits are the key; all ones if there is none."""

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            pointer = intrinsics.point_at(context, builder, signature.args[0], arguments[:2], _SIXTEEN_U32)
            block, shifts = builder.load(pointer, align=4), intrinsics.repeat(builder, arguments[3], _SIXTEEN_U32)
            keys = intrinsics.repeat(builder, arguments[2], _SIXTEEN_U32)
            same = builder.icmp_unsigned("==", builder.lshr(block, shifts), keys)
            one = intrinsics.repeat(builder, cgutils.int32_t(1), _SIXTEEN_U32)
            below = builder.and_(block, builder.sub(builder.shl(one, shifts), one))
            return _reduce(builder, "umin", builder.select(same, below, _ALL_ONES), _SIXTEEN_U32, "v16i32")

        if intrinsics.is_flat_array(items) and items.dtype == types.uint32 and intrinsics.is_integer(position):
            return types.uint32(items, types.intp, types.uint32, types.uint32), generate
        return None

    @intrinsic
    def lowest_of_16(typingctx: Any, items: Any, position: Any) -> Any:
        """The lowest of 16 items, which are uint32."""

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            pointer = intrinsics.point_at(context, builder, signature.args[0], arguments, _SIXTEEN_U32)
            return _reduce(builder, "umin", builder.load(pointer, align=4), _SIXTEEN_U32, "v16i32")

        if intrinsics.is_flat_array(items) and items.dtype == types.uint32 and intrinsics.is_integer(position):
            return types.uint32(items, types.intp), generate
        return None

    @intrinsic
    def lowest_other_of_16(typingctx: Any, items: Any, position: Any, one: Any, two: Any, three: Any) -> Any:
        """The lowest of the 16 uint32 from `position` on but those at three positions; all ones if there is no other."""

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            pointer = intrinsics.point_at(context, builder, signature.args[0], arguments[:2], _SIXTEEN_U32)
            block = builder.load(pointer, align=4)
            for place in arguments[2:]:
                lane = builder.trunc(builder.sub(place, arguments[1]), cgutils.int32_t)
                left_out = builder.icmp_unsigned("==", intrinsics.repeat(builder, lane, _SIXTEEN_U32), _COUNTING)
                block = builder.select(left_out, _ALL_ONES, block)
            return _reduce(builder, "umin", block, _SIXTEEN_U32, "v16i32")

        if intrinsics.is_flat_array(items) and items.dtype == types.uint32 and intrinsics.is_integer(position):
            return types.uint32(items, types.intp, types.intp, types.intp, types.intp), generate
        return None
