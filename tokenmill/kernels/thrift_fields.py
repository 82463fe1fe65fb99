"""Walking over Thrift's compact protocol: what is wanted of a struct as numbers; the rest is passed over, and checked too.

A table says what is wanted: `steps[state, field]` is the state of a field in a struct of that state, or -1. The outermost struct
has state 0; structs in a list have the state of the list. Nothing recurses, and every value takes a byte at least, but for an
element's head: the time is that of one pass, whatever the bytes are.

    15 06 38 02 61 62 00   where field 1 is state 1 and field 4 is state 2:   [1, 3, 0] [2, 4, 2]

`tokenmill.reference.thrift` is the same in plain words. Source: the Thrift specification, "Thrift Compact protocol encoding".
"""

from __future__ import annotations

import numpy as np

from tokenmill.kernels.compiling import inline_part, kernel, part
from tokenmill.kernels.intrinsics import borrow

#: Types on the wire. A field that is true or false is no more than its type, as an element it is a byte.
TRUE, FALSE, I8, I16, I32, I64, DOUBLE, BINARY, LIST, SET, MAP, STRUCT, UUID = range(1, 14)
#: What else can be wanted: a list of structs, of which each counts, and a list of int64, of which the length is wanted.
STRUCTS, NUMBERS = 32, 33
#: Why a struct is refused.
CUT_OFF, TOO_DEEP, UNKNOWN_TYPE, OTHER_TYPE, TOO_LARGE = -1, -2, -3, -4, -5
#: So many structs and lists within each other.
DEEPEST = 64

#: Of a struct or list that is open: elements left (-1 in a struct), their type (in a map the next, and the one behind it), state
#: of what is in it, last field.
_LEFT, _KIND, _NEXT_KIND, _STATE, _FIELD = range(5)
_STOP, _LONG = 0, 15
_ONE, _SEVEN_BITS = np.uint64(1), np.uint64(0x7F)


@kernel
def scan_struct(data, steps, kinds, nodes):
    """Walk over the struct that `data` (uint8[n]) begins with.

    `steps` (int64[s, f]) and `kinds` (int64[s], the type of each state) say what is wanted. Each such value is a column of
    `nodes` (int64[3, m]): its state; the number, or where its bytes begin; the size of these. Returns how many there are, more
    than `m` where not all had room, or why the struct is refused; and the place behind it, or of the fault.
    """
    data, steps, kinds, nodes = borrow(data), borrow(steps), borrow(kinds), borrow(nodes)
    stack = np.zeros((DEEPEST, 5), np.int64)
    stack[0, _LEFT] = -1
    depth = position = count = np.int64(0)
    while depth >= 0:
        is_field = stack[depth, _LEFT] < 0
        if stack[depth, _LEFT] == 0:
            depth -= 1
            continue
        start = position
        kind, state, position = _next_head(data, position, stack, depth, steps)
        if kind < 0:
            return kind, start
        if kind == _STOP:
            depth -= 1
            continue
        value, size, position = _read_value(data, position, kind, is_field)
        if position >= 0 and (kind == STRUCT or LIST <= kind <= MAP):
            depth += 1
            position = _open(data, position, kind, stack, depth, value, size) if depth < DEEPEST else TOO_DEEP
        if position >= 0 and state >= 0:
            if not _is_wanted(kinds[state], kind, is_field, value, size):
                return OTHER_TYPE, start
            if kind != LIST or kinds[state] == NUMBERS:
                if count < nodes.shape[1]:
                    nodes[0, count], nodes[1, count], nodes[2, count] = state, value, size
                count += 1
            if kind == STRUCT or kinds[state] == STRUCTS:
                stack[depth, _STATE] = state
        if position < 0:
            return position, start
    return count, position


@inline_part
def _next_head(data, position, stack, depth, steps):
    """Type and state of what comes next in the innermost struct or list, and where its value begins."""
    if stack[depth, _LEFT] > 0:
        kind, stack[depth, _KIND] = stack[depth, _KIND], stack[depth, _NEXT_KIND]
        stack[depth, _NEXT_KIND] = kind
        stack[depth, _LEFT] -= 1
        return kind, stack[depth, _STATE], position
    if position >= len(data):
        return np.int64(CUT_OFF), np.int64(-1), position
    head = np.int64(data[position])
    position += 1
    if head == _STOP:
        return np.int64(_STOP), np.int64(-1), position
    kind, field = head & 15, stack[depth, _FIELD] + (head >> 4)
    if not TRUE <= kind <= UUID:
        return np.int64(UNKNOWN_TYPE), np.int64(-1), position
    if head >> 4 == 0:
        field, _, position = _read_value(data, position, I16, True)
        if position < 0:
            return position, np.int64(-1), position
    stack[depth, _FIELD] = field
    state = stack[depth, _STATE]
    is_wanted = state >= 0 and 0 <= field < steps.shape[1]
    return kind, steps[state, field] if is_wanted else np.int64(-1), position


@inline_part
def _read_value(data, position, kind, is_field):
    """A number, where bytes begin, or how many elements there are; how many bytes, or what type of elements; the place behind.

    In that place a status where there is no such value.
    """
    nothing = np.int64(0)
    if kind == STRUCT:
        return nothing, nothing, position
    if kind <= I8 or kind in (DOUBLE, UUID):
        size = 16 if kind == UUID else 8 if kind == DOUBLE else 0 if kind <= FALSE and is_field else 1
        return nothing, nothing, _pass_over(data, position, size)
    if kind in (LIST, SET):
        return _read_list_head(data, position)
    raw, position = _read_varint(data, position)
    if position < 0:
        return nothing, nothing, position
    if kind in (MAP, BINARY):
        if raw > np.uint64(len(data) - position):
            return nothing, nothing, np.int64(CUT_OFF)
        size = np.int64(raw)
        return (size, nothing, position) if kind == MAP else (position, size, position + size)
    number = np.int64(raw >> _ONE) ^ -np.int64(raw & _ONE)
    most = 0x7FFF if kind == I16 else 0x7FFFFFFF
    if kind != I64 and not ~most <= number <= most:
        return nothing, nothing, np.int64(TOO_LARGE)
    return number, nothing, position


@inline_part
def _pass_over(data, position, size):
    return position + size if position + size <= len(data) else np.int64(CUT_OFF)


@part
def _read_list_head(data, position):
    """How many elements there are, of what type, and where the first one is: `25` has two of type 5."""
    nothing = np.int64(0)
    if position >= len(data):
        return nothing, nothing, np.int64(CUT_OFF)
    head = np.int64(data[position])
    position += 1
    count = np.uint64(head >> 4)
    if head >> 4 == _LONG:
        count, position = _read_varint(data, position)
        if position < 0:
            return nothing, nothing, position
    if count > np.uint64(len(data) - position):
        return nothing, nothing, np.int64(CUT_OFF)
    return np.int64(count), head & 15, position


@inline_part
def _read_varint(data, position):
    """Seven bits a byte, the lowest first, 64 at most: `AC 02` is 300. The place behind, or a status."""
    value = np.uint64(0)
    for place in range(10):
        if position >= len(data):
            return value, np.int64(CUT_OFF)
        byte = np.uint64(data[position])
        position += 1
        if place == 9 and byte > _ONE:
            break
        value |= (byte & _SEVEN_BITS) << np.uint64(7 * place)
        if byte <= _SEVEN_BITS:
            return value, position
    return value, np.int64(TOO_LARGE)


@part
def _open(data, position, kind, stack, depth, count, element):
    """Begin a struct, list or map as the innermost one, nothing of it wanted. Returns where its first element is, or a status."""
    stack[depth, _LEFT] = -1 if kind == STRUCT else 2 * count if kind == MAP else count
    stack[depth, _KIND] = stack[depth, _NEXT_KIND] = element
    stack[depth, _STATE], stack[depth, _FIELD] = -1, 0
    if kind == MAP and count:
        if position >= len(data):
            return np.int64(CUT_OFF)
        both = np.int64(data[position])
        stack[depth, _KIND], stack[depth, _NEXT_KIND] = both >> 4, both & 15
        position += 1
    for other in (stack[depth, _KIND], stack[depth, _NEXT_KIND]):
        if kind != STRUCT and count and not TRUE <= other <= UUID:
            return np.int64(UNKNOWN_TYPE)
    return position


@part
def _is_wanted(wanted, kind, is_field, count, element):
    """Whether a value has the type of its state. The list of `STRUCTS` is a field, each of its structs an element."""
    if wanted == STRUCTS:
        return kind == STRUCT if not is_field else kind == LIST and (count == 0 or element == STRUCT)
    if wanted == NUMBERS:
        return kind == LIST and (count == 0 or element == I64)
    return kind == wanted
