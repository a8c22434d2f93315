"""Snappy and page headers: the same as from any decoder, and no byte outside, whatever the data are."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from tidemill.runtime.kernels.parquet.pages import DAMAGED, SLACK, decompress, look_up, page_header, varint


def twin(data: bytes, size: int) -> bytes | None:
    """The format's description, element by element; None where the data do not keep to it."""
    out, at = bytearray(), 0
    while at < len(data):
        tag = data[at]
        kind, high = tag & 3, tag >> 2
        extra = max(high - 59, 0) if kind == 0 else (0, 1, 2, 4)[kind]
        if at + extra >= len(data):
            return None
        number = int.from_bytes(data[at + 1 : at + 1 + extra], "little")
        at += 1 + extra
        if kind == 0:
            length = (number if extra else high) + 1
            if at + length > len(data):
                return None
            out += data[at : at + length]
            at += length
        else:
            length, offset = ((high & 7) + 4, (tag >> 5) << 8 | number) if kind == 1 else (high + 1, number)
            if not 0 < offset <= len(out):
                return None
            for _ in range(length):
                out.append(out[-offset])
        if len(out) > size:
            return None
    return bytes(out) if len(out) == size else None


def compressed(numbers: np.ndarray) -> bytes:
    """What Arrow makes of them, without the size in front."""
    data = pa.compress(numbers.tobytes(), codec="snappy", asbytes=True)
    return data[next(i for i, byte in enumerate(data) if byte < 0x80) + 1 :]


def decoded(data: bytes, size: int) -> tuple[int, bytes]:
    room = np.full(size + SLACK + 64, 0xA5, np.uint8)
    found = decompress(np.frombuffer(bytearray(data), np.uint8), 0, room[32 : 32 + size + SLACK], size)
    assert (room[:32] == 0xA5).all() and (room[32 + size + SLACK :] == 0xA5).all()
    return found, room[32 : 32 + size].tobytes()


def checked(data: bytes, size: int) -> int:
    found, out = decoded(data, size)
    expected = twin(data, size)
    assert found == DAMAGED if expected is None else (found >= 0 and out == expected)
    return found


steps = st.sampled_from([0, 1, 70, 300, 70_000, 1 << 25, 1 << 40])


@settings(deadline=None)
@given(start=st.integers(0, 1 << 55), gaps=st.lists(steps, max_size=300))
def test_numbers_come_back(start, gaps):
    numbers = start + np.cumsum(np.array(gaps, np.int64))
    assert checked(compressed(numbers), numbers.nbytes) >= 0


@settings(deadline=None)
@given(gaps=st.lists(steps, min_size=1, max_size=60), damage=st.data())
def test_damaged_data_are_told_from_good_ones(gaps, damage):
    numbers = (1 << 50) + np.cumsum(np.array(gaps, np.int64))
    data = bytearray(compressed(numbers))
    for _ in range(damage.draw(st.integers(0, 4))):
        data[damage.draw(st.integers(0, len(data) - 1))] = damage.draw(st.integers(0, 255))
    data = data[: damage.draw(st.integers(0, len(data)))]
    checked(bytes(data), numbers.nbytes + damage.draw(st.sampled_from([-8, -1, 0, 1, 8])))


@settings(deadline=None)
@given(data=st.binary(max_size=80), size=st.integers(0, 200))
def test_any_bytes_are_read_as_described(data, size):
    checked(data, size)


def test_most_times_are_pairs():
    times = 1_767_225_600_000_000 + np.cumsum(np.random.default_rng(1).exponential(71, 20_000)).astype(np.int64)
    assert checked(compressed(times), times.nbytes) > 0.9 * len(times)


def test_text_comes_back():
    text = np.frombuffer(b" ".join(b"%d" % (i * i) for i in range(8_000)), np.uint8)
    assert checked(compressed(text), text.nbytes) >= 0


@settings(deadline=None)
@given(words=st.lists(st.sampled_from([b"a", b"ab", b"abcdefghij", b"abcdefghijklmnopqrstuvw" * 9]), max_size=60))
def test_repetitions_of_any_length_come_back(words):
    """Copies from 1 to many bytes back, some of which overlap what they write."""
    text = np.frombuffer(b"".join(words), np.uint8)
    assert checked(compressed(text), text.nbytes) >= 0


def test_varints():
    assert varint(np.array([0x96, 0x01], np.uint8), 0) == (150, 2)
    assert varint(np.array([0x96], np.uint8), 0)[1] < 0
    assert varint(np.full(12, 0xFF, np.uint8), 0)[1] < 0


def test_a_page_header_by_hand():
    """Type 0, sizes 6 and 5, a data header with 3 values in encoding 8, levels in encoding 3, and statistics."""
    header = [
        0x15,
        0x00,
        0x15,
        0x0C,
        0x15,
        0x0A,
        0x2C,
        0x15,
        0x06,
        0x15,
        0x10,
        0x15,
        0x06,
        0x15,
        0x06,
        0x1C,
        0x18,
        0x01,
        0x61,
        0x00,
        0x00,
        0x00,
    ]
    found = np.empty(6, np.int64)
    assert page_header(np.array(header, np.uint8), 0, found) == len(header)
    assert found.tolist() == [0, 6, 5, 3, 8, 3]
    for length in range(len(header)):
        assert page_header(np.array(header[:length], np.uint8), 0, found) < 0


@settings(deadline=None)
@given(data=st.binary(max_size=60))
def test_any_header_ends_inside_the_data_or_is_refused(data):
    assert page_header(np.frombuffer(data, np.uint8), 0, np.empty(6, np.int64)) <= len(data)


@settings(deadline=None)
@given(width=st.integers(0, 20), known=st.integers(1, 300), data=st.data())
def test_numbers_of_a_dictionary(width, known, data):
    """Rows of bits and runs, as the format describes them; a number that the dictionary lacks is refused."""
    top = min(1 << width, known + 1)
    page, expected = [width], []
    for _ in range(data.draw(st.integers(1, 5))):
        if data.draw(st.booleans()):
            numbers = data.draw(st.lists(st.integers(0, top - 1), min_size=8, max_size=40))
            numbers = numbers[: len(numbers) // 8 * 8]
            packed = sum(n << width * i for i, n in enumerate(numbers))
            page += [len(numbers) // 8 << 1 | 1, *packed.to_bytes(len(numbers) * width // 8, "little")]
        else:
            times, number = data.draw(st.integers(1, 60)), data.draw(st.integers(0, top - 1))
            numbers = [number] * times
            page += [times << 1, *number.to_bytes((width + 7) // 8, "little")]
        expected += numbers
    dictionary = np.arange(known, dtype=np.int32) * 7 - 50
    room = np.array(page + [0xA5] * SLACK, np.uint8)
    out = np.full(len(expected) + 8, -1, np.int32)
    good = look_up(room[: len(page)], 0, len(expected), dictionary, out[4:-4])
    assert good == (max(expected) < known) and (out[:4] == -1).all() and (out[-4:] == -1).all()
    if good:
        assert out[4:-4].tolist() == dictionary[expected].tolist()
        assert not look_up(room[: len(page) - 1], 0, len(expected), dictionary, out[4:-4]) or width == 0
