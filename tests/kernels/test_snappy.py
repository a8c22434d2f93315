"""Snappy as a row of pairs: the same bytes as from any decoder, and no byte outside, whatever the data are."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidemill.runtime.kernels.snappy import DAMAGED, TRIAL, UNSUITABLE, decompress


def twin(data: bytes, size: int) -> bytes | None:
    """The format's description, element by element; None where the data do not keep to it."""
    out, at = bytearray(), 0
    while at < len(data):
        tag = data[at]
        kind, high = tag & 3, tag >> 2
        extra = max(high - 59, 0) if kind == 0 else (0, 1, 2, 4)[kind]
        if at + extra >= len(data):
            return None
        number = int.from_bytes(data[at + 1:at + 1 + extra], "little")
        at += 1 + extra
        if kind == 0:
            length = (number if extra else high) + 1
            if at + length > len(data):
                return None
            out += data[at:at + length]
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
    return data[next(i for i, byte in enumerate(data) if byte < 0x80) + 1:]


def decoded(data: bytes, size: int) -> tuple[int, bytes]:
    room = np.full(size + 64, 0xA5, np.uint8)
    found = decompress(np.frombuffer(bytearray(data), np.uint8), 0, room[32:32 + size])
    assert (room[:32] == 0xA5).all() and (room[32 + size:] == 0xA5).all()
    return found, room[32:32 + size].tobytes()


def checked(data: bytes, size: int) -> int:
    found, out = decoded(data, size)
    if found != UNSUITABLE:
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
    data = data[:damage.draw(st.integers(0, len(data)))]
    checked(bytes(data), numbers.nbytes + damage.draw(st.sampled_from([-8, -1, 0, 1, 8])))


@settings(deadline=None)
@given(data=st.binary(max_size=80), size=st.integers(0, 200))
def test_any_bytes_are_read_as_described(data, size):
    checked(data, size)


def test_most_times_are_pairs():
    times = 1_767_225_600_000_000 + np.cumsum(np.random.default_rng(1).exponential(71, 20_000)).astype(np.int64)
    assert checked(compressed(times), times.nbytes) > 0.9 * len(times)


@pytest.mark.parametrize("words", [4 * TRIAL])
def test_text_is_left_to_others(words):
    text = np.frombuffer(b" ".join(b"%d" % (i * i) for i in range(words)), np.uint8)
    assert decoded(compressed(text), text.nbytes)[0] == UNSUITABLE
