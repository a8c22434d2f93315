"""A generated packet trace in place of that of paper 002, section 8.1: flows that interleave, 14,000 packets a second.

A *group* is one (sip, dip, sp, dp). Within any minute there are about 2,837 of them, 552 sources, 1,846 (sip, dip) and
2,117 (sip, dip, sp), as in the paper's trace of 62 seconds. A flow is a train of packets of one group, 40 of them on
average (the raw relation of figure 9 has a flow length of 20 to 80), and some 40 flows are under way at once. Popular
groups have more flows than others. Every host is replaced by a new one after an hour, so that a long trace has ever new
groups.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import count

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from benchmarks import data

RATE, FLOW, GAP_US = 14_000, 40, 3_000
SOURCES, PAIRS, TRIPLES, GROUPS = 552, 1_846, 2_117, 2_837
DESTINATIONS, SOURCE_PORTS, DESTINATION_PORTS = 700, 900, 620
POPULARITY = 0.6
MINUTE_US, LIFE_MINUTES = 60_000_000, 60
EPOCH_US = 1_767_225_600_000_000  # 2026-01-01
ATTRIBUTES = ("sip", "dip", "sp", "dp")
COLUMNS = "sip INT, dip INT, sp INT, dp INT, len INT, ts TIMESTAMP"
_SEED, _ROW_GROUP = 2, 250_000
_SPREAD, _PORT = 2_654_435_769, 8_191  # odd, and prime to the number of ports: different indexes stay different
_SIZES = np.concatenate([np.full(400, 40), np.full(250, 1_500), np.linspace(41, 1_499, 350)]).astype(np.int32)

Array = NDArray[np.int64]


def trace(rows: int, files: int = 16) -> str:
    """Folder of Parquet files in event-time order. A shorter trace is the beginning of a longer one."""

    def write(folder: str) -> None:
        edges = np.linspace(0, rows, files + 1, dtype=np.int64)
        minutes = table_minutes()
        rest = next(minutes)
        for number, wanted in enumerate(np.diff(edges).tolist()):
            path = os.path.join(folder, f"{number:03d}.parquet")
            # A time hardly ever comes twice: a dictionary of times is written, found useless and thrown away.
            with pq.ParquetWriter(path, rest.schema, use_dictionary=[*ATTRIBUTES, "len"]) as file:
                while wanted:
                    while rest.num_rows < min(wanted, _ROW_GROUP):
                        rest = pa.concat_tables([rest, next(minutes)])
                    taken = min(wanted, _ROW_GROUP)
                    file.write_table(rest.slice(0, taken), row_group_size=_ROW_GROUP)
                    rest, wanted = rest.slice(taken), wanted - taken
            os.utime(path, (1_700_000_000 + number,) * 2)  # Spark takes files in order of their age

    return data._cached(f"trace2-{rows}-{files}", write)


def table_minutes() -> Iterator[pa.Table]:
    """The trace without end, a minute at a time; a flow that crosses the full minute goes on in the next one."""
    parts = population(np.random.default_rng(_SEED))
    weights = np.random.default_rng(_SEED + 1).permutation(np.arange(1, GROUPS + 1) ** -POPULARITY)
    weights /= weights.sum()
    late = {name: np.zeros(0, np.int64) for name in ("time", *ATTRIBUTES)}
    for minute in count():
        chance = np.random.default_rng((_SEED, minute))
        time, group = _flows(chance, weights)
        values = _addresses(parts, minute)
        packets = {"time": time + EPOCH_US + minute * MINUTE_US, **{n: values[n][group] for n in ATTRIBUTES}}
        packets = {name: np.concatenate([late[name], packets[name]]) for name in packets}
        order = np.argsort(packets["time"], kind="stable")
        cut = int(np.searchsorted(packets["time"][order], EPOCH_US + (minute + 1) * MINUTE_US))
        late = {name: column[order[cut:]] for name, column in packets.items()}
        columns: dict[str, object] = {n: packets[n][order[:cut]].astype(np.int32) for n in ATTRIBUTES}
        columns["len"] = _SIZES[chance.integers(0, len(_SIZES), cut)]
        columns["ts"] = pa.array(packets["time"][order[:cut]]).cast(pa.timestamp("us"))
        yield pa.table(columns)


def population(chance: np.random.Generator) -> dict[str, Array]:
    """The attributes of each group, as indexes: a tree of sources, pairs, triples and groups."""
    pair, dip = _children(chance, SOURCES, PAIRS, DESTINATIONS)
    triple, sp = _children(chance, PAIRS, TRIPLES, SOURCE_PORTS)
    group, dp = _children(chance, TRIPLES, GROUPS, DESTINATION_PORTS)
    return {"sip": pair[triple[group]], "dip": dip[triple[group]], "sp": sp[group], "dp": dp}


def _children(chance: np.random.Generator, parents: int, children: int, values: int) -> tuple[Array, Array]:
    """(parent, value) of each child: every parent has one, those of one parent differ, small values are popular."""
    parent = np.sort(np.concatenate([np.arange(parents), chance.integers(0, parents, children - parents)]))
    rank = np.arange(children) - np.searchsorted(parent, parent)
    first = (values * chance.random(parents) ** 1.5).astype(np.int64)
    return parent, (first[parent] + rank) % values


def _flows(chance: np.random.Generator, weights: NDArray[np.float64]) -> tuple[Array, Array]:
    """(time within the minute, group) of every packet of the flows that begin in one minute."""
    flows = int(chance.poisson(RATE * 60 / FLOW))
    start, length = chance.integers(0, MINUTE_US, flows), chance.geometric(1 / FLOW, flows)
    group = chance.choice(len(weights), flows, p=weights)
    waited = np.cumsum(chance.exponential(GAP_US, int(length.sum())))
    first = np.concatenate([[0], np.cumsum(length)[:-1]])
    time = np.repeat(start - waited[first], length) + waited
    return time.astype(np.int64), np.repeat(group, length)


def _addresses(parts: dict[str, Array], minute: int) -> dict[str, Array]:
    """Indexes become addresses and ports. Index i of a host is another host every hour, not all at once."""
    found = {}
    for name, hosts in (("sip", SOURCES), ("dip", DESTINATIONS)):
        age = (minute + parts[name] % LIFE_MINUTES) // LIFE_MINUTES
        found[name] = ((parts[name] + hosts * age) * _SPREAD & 0xFFFFFFFF) - 2**31
    for name in ("sp", "dp"):
        found[name] = parts[name] * _PORT % 65_521 + 1
    return found
