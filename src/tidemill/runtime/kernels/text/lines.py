"""Records of text, judged field by field.

`take_csv` and `take_json` copy the records whose every field is in the plainest spelling of its column's type, one CSV
line each, and leave all others alone. The plainest spelling of a type means the same to Arrow's CSV reader and to
DuckDB's TRY_CAST, so the lines copied may be read by the one in place of the other.

Nothing outside of the given arrays is read or written, whatever the data are. All functions are in this one file
because numba's cache of an entry point watches only the entry point's own file.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from tidemill.runtime.kernels.text.memory import copy_bytes, get_byte, put_byte

# What a field must look like. INTEGER has bounds; DECIMAL has the most digits before and behind the point.
TEXT, INTEGER, DOUBLE, FLOAT, BOOLEAN, DATE, TIMESTAMP, TIME, DECIMAL = range(9)
MOST_DIGITS = 18  # of a number that is read without a look at its magnitude
_LF, _CR, _TAB, _SPACE, _QUOTE, _COMMA, _BACKSLASH = 10, 13, 9, 32, 34, 44, 92
_PLUS, _MINUS, _POINT, _ZERO, _NINE, _COLON, _E, _T, _Z = 43, 45, 46, 48, 57, 58, 101, 84, 90
_OPEN, _CLOSE, _ARRAY, _ARRAY_END, _MARK = 123, 125, 91, 93, 0xEF
_TRUE, _FALS, _NUL = (int.from_bytes(word, "little") for word in (b"true", b"fals", b"null"))
_NULL, _STRING, _NUMBER, _WORD = range(4)  # the forms of a JSON value


@njit(nogil=True)
def _digits_end(i, end):
    while i < end and _ZERO <= get_byte(i) <= _NINE:
        i += 1
    return i


@njit(nogil=True)
def _integer_end(i, end, low, high):
    negative = i < end and get_byte(i) == _MINUS
    if negative:
        i += 1
    first, value = i, 0
    while i < end and i - first <= MOST_DIGITS:
        digit = get_byte(i) - _ZERO
        if digit < 0 or digit > 9:
            break
        value = 10 * value + digit
        i += 1
    if i == first or i - first > MOST_DIGITS or (-value < low if negative else value > high):
        return -1
    return i


@njit(nogil=True)
def _decimal_end(i, end, before, behind):
    """The place behind a decimal number with at most `before` digits before its point and `behind` after it."""
    if i < end and get_byte(i) == _MINUS:
        i += 1
    point = _digits_end(i, end)
    if point == i or point - i > before:
        return -1
    if point == end or get_byte(point) != _POINT:
        return point
    last = _digits_end(point + 1, end)
    return last if 0 < last - point - 1 <= behind else -1


@njit(nogil=True)
def _double_end(i, end):
    """Behind a decimal, with an exponent of at most two digits or without."""
    mark = _decimal_end(i, end, 40, 40)
    if mark < 0 or mark == end or get_byte(mark) | 32 != _E:
        return mark
    first = mark + 1
    if first < end and get_byte(first) in (_MINUS, _PLUS):
        first += 1
    last = _digits_end(first, end)
    return last if 0 < last - first <= 2 else -1


@njit(nogil=True)
def _two_digits(i):
    """The number that two digits spell; -1 if one of them is none."""
    a, b = get_byte(i) - _ZERO, get_byte(i + 1) - _ZERO
    return 10 * a + b if 0 <= a <= 9 and 0 <= b <= 9 else -1


@njit(nogil=True)
def _date_end(i, end):
    if end - i < 10 or get_byte(i + 4) != _MINUS or get_byte(i + 7) != _MINUS:
        return -1
    century, rest, month, day = _two_digits(i), _two_digits(i + 2), _two_digits(i + 5), _two_digits(i + 8)
    year = 100 * century + rest
    if century < 0 or rest < 0 or year < 1 or month < 1 or month > 12 or day < 1:
        return -1
    if month == 2:
        leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
        most = 29 if leap else 28
    else:
        most = 30 if month == 4 or month == 6 or month == 9 or month == 11 else 31
    return i + 10 if day <= most else -1


@njit(nogil=True)
def _time_end(i, end):
    """Behind HH:MM:SS with up to six digits behind a point, or without."""
    if end - i < 8 or get_byte(i + 2) != _COLON or get_byte(i + 5) != _COLON:
        return -1
    hour, minute, second = _two_digits(i), _two_digits(i + 3), _two_digits(i + 6)
    if hour < 0 or hour > 23 or minute < 0 or minute > 59 or second < 0 or second > 59:
        return -1
    i += 8
    if i == end or get_byte(i) != _POINT:
        return i
    last = _digits_end(i + 1, end)
    return last if 0 < last - i - 1 <= 6 else -1


@njit(nogil=True)
def _timestamp_end(i, end):
    day = _date_end(i, end)
    if day < 0 or day == end or get_byte(day) not in (_SPACE, _T):
        return -1
    last = _time_end(day + 1, end)
    return last + 1 if 0 <= last < end and get_byte(last) == _Z else last


@njit(nogil=True)
def _four(i):
    return get_byte(i) | get_byte(i + 1) << 8 | get_byte(i + 2) << 16 | get_byte(i + 3) << 24


@njit(nogil=True)
def _boolean_end(i, end):
    """Behind true, false, 1 or 0."""
    if i < end and get_byte(i) in (_ZERO, _ZERO + 1):
        return i + 1
    if end - i >= 4 and _four(i) == _TRUE:
        return i + 4
    return i + 5 if end - i >= 5 and _four(i) == _FALS and get_byte(i + 4) == _E else -1


@njit(nogil=True)
def _value_end(i, end, kind, low, high):
    """Behind the plain value of a kind, not text, that begins at i; -1 where there is none."""
    if kind == INTEGER:
        return _integer_end(i, end, low, high)
    if kind == DOUBLE:
        return _double_end(i, end)
    if kind == TIMESTAMP:
        return _timestamp_end(i, end)
    if kind == FLOAT:
        return _decimal_end(i, end, 30, 30)
    if kind == DECIMAL:
        return _decimal_end(i, end, low, high)
    if kind == DATE:
        return _date_end(i, end)
    if kind == TIME:
        return _time_end(i, end)
    return _boolean_end(i, end)


@njit(nogil=True)
def _take_record(i, end, kinds, low, high, delimiter, quote, target):
    """One CSV record, a line at `target`; the address behind it, or -1. The Z of a time is left out: UTC is meant."""
    start, width = i, kinds.shape[0]
    for f in range(width):
        kind = kinds[f]
        quoted = i < end and get_byte(i) == quote
        if quoted:
            i += 1
        begin = i
        if kind == TEXT:
            stop = quote if quoted else delimiter
            while i < end:
                octet = get_byte(i)
                if octet == stop:
                    break
                if octet in (quote, _CR):
                    return -1
                i += 1
        elif i < end and get_byte(i) != delimiter:
            # An empty field is no value; in quotes it is nothing plain, and neither is its second quote a value.
            i = _value_end(i, end, kind, low[f], high[f])
            if i < 0:
                return -1
            if kind == TIMESTAMP and get_byte(i - 1) == _Z:
                target = copy_bytes(start, target, i - 1 - start)
                start = i
        if quoted:
            if i >= end or get_byte(i) != quote or (i == begin and kind != TEXT):
                return -1
            i += 1
        if f < width - 1:
            if i >= end or get_byte(i) != delimiter:
                return -1
            i += 1
    if i != end:
        return -1
    target = copy_bytes(start, target, end - start)
    put_byte(target, _LF)
    return target + 1


@njit(cache=True, nogil=True)
def take_csv(data, starts, ends, kinds, low, high, delimiter, quote, limit, out, taken):
    """Copy the plain CSV records to `out`, a line each; how many bytes; `taken`, all 0 before, says which.

    Field f is of kinds[f] within low[f] and high[f]; `quote` is -1 where fields are not quoted. `out` has room for all
    records and a line end each. A record that is taken has as many fields as there are kinds and lies on one line.
    """
    base, first = np.int64(data.ctypes.data), np.int64(out.ctypes.data)
    target = first
    for r in range(starts.shape[0]):
        start, end = base + starts[r], base + ends[r]
        if end <= start or end - start > limit or get_byte(start) == _MARK:
            continue
        after = _take_record(start, end, kinds, low, high, delimiter, quote, target)
        if after >= 0:
            target = after
            taken[r] = 1
    return target - first


@njit(nogil=True)
def _skip_blank(i, end):
    while i < end and get_byte(i) in (_SPACE, _TAB):
        i += 1
    return i


@njit(nogil=True)
def _string_end(i, end):
    """The closing quote of the string whose bytes begin at i; -1 when it has an escape or a control character."""
    while i < end:
        octet = get_byte(i)
        if octet == _QUOTE:
            return i
        if octet == _BACKSLASH or octet < _SPACE:
            return -1
        i += 1
    return -1


@njit(nogil=True)
def _number_end(i, end):
    """Behind a JSON number without exponent that begins at i, at most MOST_DIGITS long; -1 for any other."""
    negative = get_byte(i) == _MINUS
    if negative:
        i += 1
    first = i
    i = _digits_end(i, end)
    if i == first or (get_byte(first) == _ZERO and i > first + 1):
        return -1
    if i < end and get_byte(i) == _POINT:
        point = i
        i = _digits_end(i + 1, end)
        if i == point + 1:
            return -1
    elif negative and get_byte(first) == _ZERO:
        return -1  # readers differ on the sign of -0
    return i if i - first <= MOST_DIGITS else -1


@njit(nogil=True)
def _word_end(i, end):
    """Behind true, false or null; -1 for anything else."""
    return i + 4 if end - i >= 4 and _four(i) == _NUL else _boolean_end(i, end)


@njit(nogil=True)
def _is_name(a, name, size):
    for k in range(size):  # noqa: SIM110 - numba has no all()
        if get_byte(a + k) != get_byte(name + k):
            return False
    return True


@njit(nogil=True)
def _is_alike(a, name, size):
    """Whether two names are the same but for the case of ASCII letters."""
    for k in range(size):
        x, y = get_byte(a + k), get_byte(name + k)
        if x != y and (x ^ y != 32 or (x | 32) < 97 or (x | 32) > 122):
            return False
    return True


@njit(nogil=True)
def _column_of(a, b, names, offsets, guess):
    """The column that bytes a..b name; -1 when none does in any case; -2 when that is not certain."""
    count = offsets.shape[0] - 1
    if guess < count and offsets[guess + 1] - offsets[guess] == b - a and _is_name(a, names + offsets[guess], b - a):
        return guess
    for c in range(count):
        if offsets[c + 1] - offsets[c] == b - a and _is_name(a, names + offsets[c], b - a):
            return c
    for i in range(a, b):
        if get_byte(i) >= 128:
            return -2
    for c in range(count):
        if offsets[c + 1] - offsets[c] == b - a and _is_alike(a, names + offsets[c], b - a):
            return -2
    return -1


@njit(nogil=True)
def _find_value(i, end):
    """The form of the plain JSON value at `i`, and where its text begins and ends; -1 for an end that is not found."""
    octet = get_byte(i)
    if octet == _QUOTE:
        return _STRING, i + 1, _string_end(i + 1, end)
    if octet == _MINUS or _ZERO <= octet <= _NINE:
        return _NUMBER, i, _number_end(i, end)
    return (_WORD if octet != 110 else _NULL), i, _word_end(i, end)


@njit(nogil=True)
def _find_values(i, end, names, offsets, form, first, last):
    """The values of one JSON object by column; False for anything that is not plain. The last place of `form` tells
    that there are fields of other names.
    """
    form[:] = -1
    i = _skip_blank(i + 1, end)
    if i < end and get_byte(i) == _CLOSE:
        return _skip_blank(i + 1, end) == end
    n = 0
    while i < end and get_byte(i) == _QUOTE:
        close = _string_end(i + 1, end)
        if close < 0:
            return False
        c = _column_of(i + 1, close, names, offsets, n)
        n += 1
        i = _skip_blank(close + 1, end)
        if c == -2 or i >= end or get_byte(i) != _COLON:
            return False
        i = _skip_blank(i + 1, end)
        if i >= end:
            return False
        kind, a, b = _find_value(i, end)
        if b < 0 or (c >= 0 and form[c] >= 0):
            return False
        if c >= 0:
            form[c], first[c], last[c] = kind, a, b
        else:
            form[-1] = 1
        i = _skip_blank(b + 1 if kind == _STRING else b, end)
        if i < end and get_byte(i) == _CLOSE:
            return _skip_blank(i + 1, end) == end
        if i >= end or get_byte(i) != _COMMA:
            return False
        i = _skip_blank(i + 1, end)
    return False


@njit(nogil=True)
def _is_suitable(a, b, form, kind):
    """Whether the text of a JSON value is what DuckDB would make of it, and may be that of a column's type."""
    if form == _STRING:
        return a < b or kind == TEXT
    if form == _WORD:
        return kind in (TEXT, BOOLEAN)
    if kind in (DATE, TIMESTAMP, TIME):
        return False
    if kind in (TEXT, INTEGER, BOOLEAN):
        for i in range(a, b):  # noqa: SIM110
            if get_byte(i) == _POINT:
                return False
        return True
    # A number passes through 64 bits of a double there: 15 digits come out as they were.
    return kind == DOUBLE or b - a <= 15


@njit(nogil=True)
def _take_object(i, end, kinds, low, high, names, offsets, form, first, last, target):
    """One JSON object as a CSV line at `target`; the address behind it, or -1."""
    if not _find_values(i, end, names, offsets, form, first, last):
        return -1
    for c in range(kinds.shape[0]):
        if form[c] > _NULL:
            a, b, kind = first[c], last[c], kinds[c]
            if not _is_suitable(a, b, form[c], kind):
                return -1
            if kind == TEXT:
                put_byte(target, _QUOTE)
                target = copy_bytes(a, target + 1, b - a)
                put_byte(target, _QUOTE)
                target += 1
            else:
                if _value_end(a, b, kind, low[c], high[c]) != b:
                    return -1
                target = copy_bytes(a, target, b - a - (1 if kind == TIMESTAMP and get_byte(b - 1) == _Z else 0))
        put_byte(target, _COMMA)
        target += 1
    put_byte(target - 1, _LF)
    return target


@njit(cache=True, nogil=True)
def take_json(data, starts, ends, kinds, low, high, names, offsets, limit, out, taken):
    """Write the plain JSON objects to `out` as CSV lines in the order of the columns; how many bytes; `taken`, all 0
    before, says which: 2 of those that have other fields too.

    Column c is called names[offsets[c]:offsets[c + 1]], in ASCII. `out` has room for all records and, for each, two
    quotes and a comma for every column. Plain: strings without escapes, numbers without exponents, no object or array
    inside, no name twice, and no name that differs from a column's in its case alone.
    """
    width = kinds.shape[0]
    form, start_of, end_of = np.empty(width + 1, np.int64), np.empty(width, np.int64), np.empty(width, np.int64)
    base, called, first = np.int64(data.ctypes.data), np.int64(names.ctypes.data), np.int64(out.ctypes.data)
    target = first
    for r in range(starts.shape[0]):
        start, end = base + starts[r], base + ends[r]
        if end <= start or end - start > limit or get_byte(start) != _OPEN:
            continue
        after = _take_object(start, end, kinds, low, high, called, offsets, form, start_of, end_of, target)
        if after >= 0:
            target = after
            taken[r] = 2 if form[width] == 1 else 1
    return target - first


@njit(nogil=True)
def _skip_string(i, end):
    """The closing quote of any string whose bytes begin at i; `end` where there is none."""
    while i < end:
        octet = get_byte(i)
        if octet == _QUOTE:
            return i
        i += 2 if octet == _BACKSLASH else 1
    return end


@njit(nogil=True)
def _skip_value(i, end):
    """The comma or bracket behind the JSON value that begins at i, whatever is inside of it."""
    depth = 0
    while i < end:
        octet = get_byte(i)
        if octet == _QUOTE:
            i = _skip_string(i + 1, end)
        elif octet in (_OPEN, _ARRAY):
            depth += 1
        elif octet in (_CLOSE, _ARRAY_END):
            if depth == 0:
                return i
            depth -= 1
        elif octet == _COMMA and depth == 0:
            return i
        i += 1
    return end


@njit(nogil=True)
def _place_of(a, b, found, known, guess):
    """Which of the names that are known bytes a..b are; -1 for another one."""
    if guess < known and found[1, guess] == b - a and _is_name(a, found[0, guess], b - a):
        return guess
    for k in range(known):
        if found[1, k] == b - a and _is_name(a, found[0, k], b - a):
            return k
    return -1


@njit(cache=True, nogil=True)
def count_fields(data, starts, ends, names, offsets, found):
    """Count the fields of JSON objects whose names are not exactly those of columns; how many names there are.

    Name k is found[1, k] bytes from found[0, k] on, as it is spelled, and came found[2, k] times; where `found`, all 0
    before, is full, further names are left out. Every record is a valid object.
    """
    base, called, known = np.int64(data.ctypes.data), np.int64(names.ctypes.data), 0
    for r in range(starts.shape[0]):
        i, end, n, met = _skip_blank(base + starts[r], base + ends[r]) + 1, base + ends[r], 0, 0
        while True:
            i = _skip_blank(i, end)
            if i >= end or get_byte(i) != _QUOTE:
                break
            a, b = i + 1, _skip_string(i + 1, end)
            if _column_of(a, b, called, offsets, n) < 0:
                k = _place_of(a, b, found, known, met)
                if k < 0 and known < found.shape[1]:
                    k = known
                    found[0, k], found[1, k] = a, b - a
                    known += 1
                if k >= 0:
                    found[2, k] += 1
                    met = k + 1  # most records have their fields in the same order
            n += 1
            i = _skip_value(_skip_blank(b + 1, end), end)
            if i >= end or get_byte(i) != _COMMA:
                break
            i += 1
    for k in range(known):
        found[0, k] -= base
    return known
