"""Lines of text in a buffer, how the fields of a CSV record lie, and fields before they have types."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from tidemill.plan.sources import SourceSpec

LF, CR, OBJECT, ARRAY = 10, 13, ord("{"), ord("[")


@dataclass
class Lines:
    """Records inside a buffer: record i is data[starts[i]:ends[i]], without its line end.

    `whole` says that the buffer holds these records, their line ends and nothing else.
    """

    data: bytes
    starts: np.ndarray
    ends: np.ndarray
    whole: bool = False
    joined: bytes | None = field(default=None, repr=False)

    def __len__(self) -> int:
        return len(self.starts)

    def record(self, i: int) -> bytes:
        return bytes(self.data[self.starts[i] : self.ends[i]])

    def pick(self, index: np.ndarray) -> Lines:
        """Some of the records; `index` is increasing."""
        if len(index) == len(self):
            return self
        return Lines(self.data, self.starts[index], self.ends[index])

    def text(self) -> bytes:
        """The records one after another, each on its own line; the last line end may be missing."""
        if self.joined is None:
            self.joined = self.data if self.whole else self._join()
        return self.joined

    def _join(self) -> bytes:
        spans = zip(self.starts.tolist(), self.ends.tolist(), strict=True)
        return b"".join([b for start, end in spans for b in (self.data[start:end], b"\n")])

    def strings(self) -> pa.Array:
        """The records as an Arrow column; each may carry its line end. Needs valid UTF-8."""
        text = self.text()
        lengths = np.append(self.starts[1:], len(text)) - self.starts if self.whole else self.ends - self.starts + 1
        offsets = np.zeros(len(self) + 1, np.int32)
        np.cumsum(lengths, out=offsets[1:])
        return pa.StringArray.from_buffers(len(self), pa.py_buffer(offsets), pa.py_buffer(text))


def find_lines(data: bytes) -> Lines:
    """The records of a block that starts at the start of a line."""
    octets = np.frombuffer(data, np.uint8)
    breaks = np.flatnonzero(octets == LF)
    ends = breaks if data.endswith(b"\n") else np.append(breaks, len(data))
    starts = np.concatenate(([0], breaks + 1))[: len(ends)]
    if b"\r" in data:
        ends = ends - ((ends > starts) & (octets[ends - 1] == CR))
    filled = ends > starts
    if filled.all():
        return Lines(data, starts, ends, whole=True)
    return Lines(data, starts[filled], ends[filled])


@dataclass(frozen=True)
class Layout:
    """How the fields of a CSV record lie: how many, and where each declared column is."""

    width: int
    places: tuple[int, ...]
    delimiter: str = ","
    quote: str = '"'
    null: str = ""


@dataclass
class Fields:
    """Undecoded columns: `raw[c]` row r belongs to record `index[r]`; `bad` says why others are none.

    `undeclared` counts the records with each field that no column is declared for.
    """

    raw: list[pa.ChunkedArray]
    index: np.ndarray
    bad: dict[int, str] = field(default_factory=dict)
    undeclared: dict[str, int] = field(default_factory=dict)


def declared_layout(spec: SourceSpec) -> Layout:
    """Fields in the order of the declared columns."""
    width = len(spec.columns)
    return layout(spec, width, tuple(range(width)))


def layout(spec: SourceSpec, width: int, places: tuple[int, ...], delimiter: str = ",") -> Layout:
    """A layout with the source's own delimiter, quote and null."""
    options = spec.options
    return Layout(
        width, places, options.get("delimiter", delimiter), options.get("quote", '"'), options.get("null", "")
    )
