"""The settings of section 10.6 of paper 004: rooms that report regularly, two queries that group them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks import data
from tidemill.optimize.views.cost import Updates
from tidemill.optimize.views.figure12 import GroupQuery, Priced, price_pipelines

UNITS, SECOND = 650, 1_000_000
MODES = ("off", "tagger", "phantom")
METERS = tuple(f"meter{i}" for i in range(6))  # what a room reports besides its temperature, for dear aggregates


@dataclass(frozen=True)
class Setting:
    """Classes of rooms (how many, units between two updates), groups, and the periods of both queries."""

    figure: str
    rooms: tuple[tuple[int, int], ...]
    buildings: int
    temperatures: int
    building_period: int
    temperature_period: int

    @property
    def name(self) -> str:
        return f"figure {self.figure}, {self.groups:,} groups"

    @property
    def groups(self) -> int:
        """Building-temperature groups."""
        return self.buildings * self.temperatures

    @property
    def updates(self) -> list[Updates]:
        return [Updates(count, 1 / every) for count, every in self.rooms]

    def views(self, dear: bool = False) -> str:
        """An update of a room changes both answers: its temperature is never the one before. Dear aggregates are a mean
        and a deviation of each meter, whose parts are exact sums, so that a finer grouping can feed them too.
        """
        means = ", ".join(f"avg({m}) AS mean_{m}, stddev_pop({m}) AS spread_{m}" for m in METERS)
        first, second = (means, means) if dear else ("sum(degrees) AS heat", "count(*) AS rooms")
        return f"""
            CREATE STREAMED VIEW BuildingGroups AS SELECT building, {first}
            FROM Rooms SYNC EVERY {self.building_period} SECONDS GROUP BY building;
            CREATE STREAMED VIEW TemperatureGroups AS SELECT degrees, {second}
            FROM Rooms SYNC EVERY {self.temperature_period} SECONDS GROUP BY degrees"""

    def paper_model(self) -> Priced:
        """NS and NG of the paper's pipelines, in tagged tuples."""
        factor = 2.0 if self.figure == "15" else 1.5  # as sections 10.6.3 and 10.6.2 have it
        queries = [GroupQuery((self.building_period, 0)), GroupQuery((self.temperature_period, 0), factor)]
        return price_pipelines(self.updates, queries, self.groups, factor, UNITS)


FIGURES: Sequence[Setting] = (
    Setting("13", ((2_000, 1),), 20, 10, 12, 15),
    Setting("13", ((2_000, 1),), 200, 10, 12, 15),
    Setting("14", ((2_500, 2), (1_500, 10), (1_000, 15)), 100, 20, 6, 12),
    Setting("15", ((500, 10), (500, 13), (1_000, 17)), 100, 20, 12, 15),
)


def write_rooms(setting: Setting, folder: str) -> int:
    """One Parquet file of updates, each room with a phase of its own; how many there are."""
    chance = np.random.default_rng(3)
    room, at, first = [], [], 0
    for count, every in setting.rooms:
        times = chance.uniform(0, every, (count, 1)) + every * np.arange(-(-UNITS // every) + 1)[None, :]
        rows, columns = np.nonzero(times < UNITS)
        room.append(first + rows)
        at.append(times[rows, columns])
        first += count
    rooms, moments = np.concatenate(room), np.concatenate(at)
    order = np.lexsort((moments, rooms))
    steps = chance.integers(1, setting.temperatures, len(rooms))  # never a whole turn
    heat = np.cumsum(steps) % setting.temperatures
    table = pa.table(
        {
            "room": rooms[order].astype(np.int32),
            "building": (rooms[order] % setting.buildings).astype(np.int32),
            "degrees": (data.COLDEST + heat).astype(np.int32),
            **{m: chance.integers(0, 1_000, len(rooms)).astype(np.int32) for m in METERS},
            "at": pa.array((moments[order] * SECOND).astype(np.int64)).cast(pa.timestamp("us")),
        }
    )
    pq.write_table(table.sort_by("at"), os.path.join(folder, "rooms.parquet"))
    return table.num_rows
