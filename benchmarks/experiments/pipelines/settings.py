"""The settings of section 10.6 of paper 004: rooms that report regularly, two queries that group them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks import data
from tidemill.optimize.views.cost import Gap, Updates, groups_touched, union_gaps
from tidemill.optimize.views.figure12 import Counts, GroupQuery, Priced, price_pipelines

UNITS, SECOND = 650, 1_000_000
MODES = ("off", "tagger", "phantom")


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

    @property
    def periods(self) -> tuple[int, int]:
        return self.building_period, self.temperature_period

    def views(self) -> str:
        """An update of a room changes both answers: its temperature is never the one before."""
        return f"""
            CREATE STREAMED VIEW BuildingGroups AS SELECT building, sum(degrees) AS heat
            FROM Rooms SYNC EVERY {self.building_period} SECONDS GROUP BY building;
            CREATE STREAMED VIEW TemperatureGroups AS SELECT degrees, count(*) AS rooms
            FROM Rooms SYNC EVERY {self.temperature_period} SECONDS GROUP BY degrees"""

    def paper_model(self) -> Priced:
        """NS and NG of the paper's pipelines, in tagged tuples."""
        factor = 2.0 if self.figure == "15" else 1.5  # as sections 10.6.3 and 10.6.2 have it
        queries = [GroupQuery((self.building_period, 0)), GroupQuery((self.temperature_period, 0), factor)]
        return price_pipelines(self.updates, queries, self.groups, factor, UNITS)

    def predict(self, mode: str) -> Counts:
        """NS and NG of our pipelines, in changes: an update is two, the first row of a room one. A room that has its
        temperature of the last point again has not changed.
        """
        updates, rooms = self.updates, sum(count for count, _ in self.rooms)
        arriving = sum(u.rows(UNITS) for u in updates)
        alone = [2 * self._changed(union_gaps([(p, 0)], UNITS)) - rooms for p in self.periods]
        if mode == "off":
            return Counts(2 * arriving, sum(alone))
        union = union_gaps([(p, 0) for p in self.periods], UNITS)
        shared = 2 * self._changed(union) - rooms
        if mode == "tagger":
            return Counts(arriving + self._rounded_again() * shared, 2 * shared)
        finer = sum(gap.times * groups_touched(self.groups, 2 * self._changed([gap]) / gap.times) for gap in union)
        return Counts(arriving + self._rounded_again() * finer, shared + 2 * finer)

    def _changed(self, gaps: Sequence[Gap]) -> float:
        """Rows out of a synchronizer that differ from those of the point before."""
        return sum(
            u.keys * gap.times * u.share_updated(gap.length) * (1 - self._returns(u.rate * gap.length))
            for u in self.updates
            for gap in gaps
        )

    def _returns(self, steps: float) -> float:
        """The probability that so many random steps, none of them a whole turn, end at the temperature they began at.

        (1 + (t - 1) (-1 / (t - 1))^k) / t for k steps; between two numbers of steps by shares.
        """
        t, low = self.temperatures, max(1, int(steps))
        ends = [(1 + (t - 1) * (-1 / (t - 1)) ** k) / t for k in (low, low + 1)]
        part = max(0.0, steps - low)
        return (1 - part) * ends[0] + part * ends[1]

    def _rounded_again(self) -> int:
        """Queries whose points are not those of the shared synchronizer."""
        low = min(self.periods)
        covered = all(p % low == 0 for p in self.periods)
        return sum(p != low for p in self.periods) if covered else 2


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
            "at": pa.array((moments[order] * SECOND).astype(np.int64)).cast(pa.timestamp("us")),
        }
    )
    pq.write_table(table.sort_by("at"), os.path.join(folder, "rooms.parquet"))
    return table.num_rows
