"""The pages of a column of a Parquet file: headers, Snappy, values as they are or as numbers of a dictionary.

Pages of times are long rows of pairs: some low bytes of a number as they are (a literal), the others as in a number
before (a copy). A general Snappy decoder writes them one after the other and waits, at every copy, for bytes that it
has just written in pieces. Here a pair is one step that reads and writes whole numbers.

Nothing outside of the given arrays is read or written, whatever the data are. All functions are in this one file
because numba's cache of an entry point watches only the entry point's own file.
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

DAMAGED, UNSUITABLE = -1, -2
SLACK = 16  # bytes behind the room for a page, so that whole words may be written and read at its end
# What a page header says.
TYPE, FULL_SIZE, SIZE, VALUES, ENCODING, LEVELS = range(6)
_DATA_PAGE, _DICTIONARY_PAGE = 0, 2
_PLAIN, _PLAIN_DICTIONARY, _RLE, _RLE_DICTIONARY = 0, 2, 3, 8
# Fields of a page header with a header of their own inside (parquet.thrift), and how deep headers go.
_DATA_HEADER, _DICTIONARY_HEADER, _DEPTH = 5, 7, 4
_WIDEST = 32  # bits of a number of a dictionary


def _loading(bits: int):
    @intrinsic
    def load(typingctx, address):
        """The bytes at an address, wherever it is."""

        def generate(context, builder, signature, arguments):
            place = builder.inttoptr(arguments[0], ir.IntType(bits).as_pointer())
            word = builder.load(place)
            word.align = 1
            return word

        return types.Integer.from_bitwidth(bits, False)(types.int64), generate

    return load


def _storing(bits: int):
    @intrinsic
    def store(typingctx, address, word):
        """Write bytes at an address, wherever it is."""

        def generate(context, builder, signature, arguments):
            place = builder.inttoptr(arguments[0], ir.IntType(bits).as_pointer())
            builder.store(arguments[1], place).align = 1
            return context.get_dummy_value()

        return types.void(types.int64, types.Integer.from_bitwidth(bits, False)), generate

    return store


load_word, load_byte = _loading(64), _loading(8)
store_word, store_byte = _storing(64), _storing(8)


# ---- Snappy ----------------------------------------------------------------------------------------


@njit(nogil=True)
def element(data, at):
    """(length, offset, first byte behind the tag) of the element at data[at]; offset 0 for a literal, length -1 where
    the data end before the tag does.
    """
    tag, rest = np.int64(data[at]), len(data) - at - 1
    kind, high = tag & 3, tag >> 2
    extra = (high - 59) * (high > 59) if kind == 0 else kind + (kind == 3)
    if extra > rest:
        return -1, 0, at
    number = np.int64(0)
    for i in range(extra):
        number |= np.int64(data[at + 1 + i]) << 8 * i
    behind = at + 1 + extra
    if kind == 0:
        return (high if extra == 0 else number) + 1, 0, behind
    if kind == 1:
        return (high & 7) + 4, (tag >> 5) << 8 | number, behind
    return high + 1, number, behind


@njit(nogil=True)
def copy_words(source, target, length):
    """Copy in whole words, up to 7 bytes more than asked; right as long as the target is 8 bytes behind the source."""
    for i in range(0, length, 8):
        store_word(target + i, load_word(source + i))


@njit(nogil=True)
def copy_bytes(source, target, length):
    """Copy exactly `length` bytes between places that do not overlap."""
    whole = length & -8
    copy_words(source, target, whole)
    for i in range(whole, length):
        store_byte(target + i, load_byte(source + i))


@njit(nogil=True)
def _copy_literal(source, target, length, has_room):
    """Copy by words where 8 bytes more may be read."""
    if has_room:
        copy_words(source, target, length)
    else:
        copy_bytes(source, target, length)


@njit(nogil=True)
def decompress(data, at, out, size):
    """Decode the elements from data[at] on into out[:size]; `out` has SLACK bytes more. Returns how many pairs there
    were, DAMAGED where they do not fill it exactly. O(size).
    """
    source, target, end = data.ctypes.data, out.ctypes.data, len(data)
    done = pairs = 0
    while at < end:
        if at + 8 <= end and done <= size - 8:
            word = np.int64(load_word(source + at))
            n = ((word & 0xC) >> 2) + 1  # bytes of the literal, where it is one
            copy = word >> 8 * n + 8
            offset = (copy & 0xE0) << 3 | copy >> 8 & 0xFF
            # A literal of 1 to 4 bytes, and what is missing to 8 of them from before they began.
            if word & 0xF3 == 0 and copy & 0x1F == 17 - 4 * n and 8 <= offset <= done:
                fresh = (1 << 8 * n) - 1
                before = np.int64(load_word(target + done - offset))
                store_word(target + done, np.uint64(before & ~fresh | word >> 8 & fresh))
                at += n + 3
                done += 8
                pairs += 1
                continue
        length, offset, at = element(data, at)
        if length <= 0 or length > size - done:
            return DAMAGED
        if offset == 0:
            if length > end - at:
                return DAMAGED
            _copy_literal(source + at, target + done, length, length + 8 <= end - at)
            at += length
        elif offset > done:
            return DAMAGED
        elif offset >= 8:
            copy_words(target + done - offset, target + done, length)
        else:
            for i in range(done, done + length):
                out[i] = out[i - offset]
        done += length
    return pairs if done == size else DAMAGED


# ---- headers: Thrift's compact protocol, as far as pages use it --------------------------------------


@njit(nogil=True)
def varint(data, at):
    """(number, place behind it); the place is negative where the data end before, or where it has too many bits."""
    number, shift = np.int64(0), 0
    while 0 <= at < len(data) and shift < 63:
        byte = np.int64(data[at])
        number |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return number, at
    return number, -1


@njit(nogil=True)
def page_header(data, at, found):
    """Fill `found` from the page header at data[at]; the place behind it, negative where it cannot be read."""
    found[:] = -1
    numbers, depth = np.zeros(_DEPTH, np.int64), 0
    while 0 <= at < len(data):
        head = data[at]
        kind, step, at = head & 0xF, head >> 4, at + 1
        if head == 0:
            if depth == 0:
                return at
            depth -= 1
            continue
        if step:
            numbers[depth] += step
        else:
            coded, at = varint(data, at)
            numbers[depth] = coded >> 1 ^ -(coded & 1)
        number = numbers[depth]
        if 4 <= kind <= 6:
            coded, at = varint(data, at)
            value = coded >> 1 ^ -(coded & 1)
            if depth == 0 and 1 <= number <= 3:
                found[number - 1] = value
            elif depth == 1 and (numbers[0] == _DATA_HEADER or numbers[0] == _DICTIONARY_HEADER) and 1 <= number <= 3:
                found[VALUES + number - 1] = value
        elif kind == 8:
            length, at = varint(data, at)
            at = at + length if 0 <= length <= len(data) - at else -1
        elif kind == 12 and depth + 1 < _DEPTH:
            depth += 1
            numbers[depth] = 0
        elif kind != 1 and kind != 2:
            return -1
    return -1


# ---- values ----------------------------------------------------------------------------------------


@njit(nogil=True)
def behind_levels(page, rows):
    """Where the values begin behind the levels, if these are one run that says that no value is missing; else -1."""
    if len(page) < 6:
        return -1
    length = np.int64(page[0]) | np.int64(page[1]) << 8 | np.int64(page[2]) << 16 | np.int64(page[3]) << 24
    run, at = varint(page, 4)
    if at < 0 or run != rows << 1 or at + 1 != 4 + length or at >= len(page) or page[at] != 1:
        return -1
    return at + 1


@njit(nogil=True)
def look_up_bits(place, width, dictionary, out):
    """out = the dictionary's values of numbers of `width` bits, side by side from an address on."""
    mask, known, bit = np.uint64((1 << width) - 1), np.uint64(len(dictionary)), 8 * place
    # Four at a time where a word holds them, wherever in its first byte they begin.
    fours = len(out) // 4 if 4 * width <= 57 else 0
    w = np.uint64(width)
    for i in range(fours):
        word = load_word(bit >> 3) >> np.uint64(bit & 7)
        a, b, c, d = word & mask, word >> w & mask, word >> w + w & mask, word >> w + w + w & mask
        if max(max(a, b), max(c, d)) >= known:
            return False
        j = np.uint64(4 * i)
        out[j], out[j + np.uint64(1)], out[j + np.uint64(2)], out[j + np.uint64(3)] = (
            dictionary[a],
            dictionary[b],
            dictionary[c],
            dictionary[d],
        )
        bit += 4 * width
    for i in range(4 * fours, len(out)):
        number = load_word(bit >> 3) >> np.uint64(bit & 7) & mask
        if number >= known:
            return False
        out[i] = dictionary[number]
        bit += width
    return True


@njit(nogil=True)
def look_up(page, at, rows, dictionary, out):
    """out[:rows] = the dictionary's values of the numbers at page[at]: runs, and rows of bits. `page` has SLACK bytes
    behind it. False where they cannot be read.
    """
    if at >= len(page) or page[at] > _WIDEST:
        return False
    width, known, start, done = np.int64(page[at]), np.uint64(len(dictionary)), page.ctypes.data, 0
    mask = np.uint64((1 << width) - 1)
    at += 1
    while done < rows:
        head, at = varint(page, at)
        stop = min(rows, done + (head >> 1) * (8 if head & 1 else 1))
        length = (head >> 1) * width if head & 1 else (width + 7) >> 3
        if at < 0 or stop == done or length > len(page) - at:
            return False
        if head & 1:
            if not look_up_bits(start + at, width, dictionary, out[done:stop]):
                return False
        else:
            number = load_word(start + at) & mask
            if number >= known:
                return False
            out[done:stop] = dictionary[number]
        at, done = at + length, stop
    return True


@njit(nogil=True)
def unpack(data, size, is_snappy, room):
    """Bring a page of `size` bytes, as it is stored in `data`, to the beginning of the room. False if it is not one."""
    if not 0 <= size <= len(room) - SLACK:
        return False
    if not is_snappy:
        if size == len(data):
            copy_bytes(data.ctypes.data, room.ctypes.data, size)
        return size == len(data)
    stated, at = varint(data, 0)
    return at >= 0 and stated == size and decompress(data, at, room, size) >= 0


@njit(cache=True, nogil=True)
def read_pages(data, is_snappy, nullable, room, out):
    """Fill `out`, int32 or int64, with the values of a column that has no missing ones, from all its pages. O(out).

    `room` is for what is decompressed: the sizes of all pages and twice SLACK. DAMAGED or UNSUITABLE where another
    reader has to judge; `out` is not complete then.
    """
    found = np.empty(6, np.int64)
    at = done = behind = 0
    dictionary = room[:0].view(out.dtype)
    while done < len(out):
        at = page_header(data, at, found)
        stored, size, rows = found[SIZE], found[FULL_SIZE], found[VALUES]
        if at < 0 or not 0 <= stored <= len(data) - at or not 0 <= rows <= len(out):
            return DAMAGED
        if not unpack(data[at : at + stored], size, is_snappy, room[behind:]):
            return DAMAGED
        at += stored
        page, encoding = room[behind : behind + size], found[ENCODING]
        if found[TYPE] == _DICTIONARY_PAGE and done == 0 and behind == 0:
            if (encoding != _PLAIN and encoding != _PLAIN_DICTIONARY) or size != rows * out.itemsize:
                return UNSUITABLE
            dictionary = page.view(out.dtype)
            behind = (size + SLACK + 7) & -8
            continue
        if found[TYPE] != _DATA_PAGE or rows > len(out) - done or (nullable and found[LEVELS] != _RLE):
            return UNSUITABLE
        first = behind_levels(page, rows) if nullable else 0
        if first < 0:
            return UNSUITABLE
        if encoding == _PLAIN:
            if size - first != rows * out.itemsize:
                return DAMAGED
            copy_bytes(page.ctypes.data + first, out.ctypes.data + done * out.itemsize, size - first)
        elif encoding in (_RLE_DICTIONARY, _PLAIN_DICTIONARY):
            if not look_up(page, first, rows, dictionary, out[done : done + rows]):
                return DAMAGED
        else:
            return UNSUITABLE
        done += rows
    return done if at == len(data) else DAMAGED
