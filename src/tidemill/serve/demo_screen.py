"""The screen of the demo: the queries it repeats, and how their answers are shown."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from rich import box
from rich.console import Console, Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from tidemill.plan.python_values import python_rows
from tidemill.plan.value_text import clean
from tidemill.serve.render import change_lines, format_count, format_size, grid
from tidemill.serve.status import clock_text

if TYPE_CHECKING:
    from tidemill.engine import Database

LONGEST_BAR = 24
HOT_SHOWN = 5
CHANGES_SHOWN = 8
STREAM = "ParkLot"
QUESTIONS = {
    "lot": "SELECT VType, vehicles FROM LotByType ORDER BY vehicles DESC, VType",
    "police": "SELECT VType, vehicles FROM LotAtPolice",
    "recent": "SELECT vehicles FROM LastFiveCount",
    "hot": "SELECT RoomID, Building, Temperature FROM HotRooms ORDER BY Temperature DESC",
    "buildings": "SELECT Building, rooms, hottest FROM HotByBuilding ORDER BY Building",
}


@dataclass
class Picture:
    """The answers of the last refresh, and the last changes."""

    answers: dict[str, list[tuple[Any, ...]]] = field(default_factory=dict)
    changes: deque[Text] = field(default_factory=lambda: deque(maxlen=CHANGES_SHOWN))
    total_changes: int = 0
    status: dict[str, Any] = field(default_factory=dict)

    def refresh(self, db: Database, subscription: Any) -> None:
        """Run all queries again, as of one moment, and add the changes since the last refresh."""
        self.answers = {name: _rows(table) for name, table in db.query_together(QUESTIONS).items()}
        self.status = db.status()
        while (table := subscription.next(timeout=0.0)) is not None:
            self.total_changes += table.num_rows
            self.changes.extend(change_lines(STREAM, table.slice(max(0, table.num_rows - CHANGES_SHOWN))))

    @property
    def has_results(self) -> bool:
        return any(self.answers.get(name) for name in ("lot", "hot"))


def screen(picture: Picture, footer: str, width: int = 100) -> Group:
    """All panels; bars are as long as a terminal of that width has room for."""
    upper = Table.grid(expand=True)
    upper.add_column(ratio=1)
    upper.add_column(ratio=1)
    bar = max(4, min(LONGEST_BAR, width // 2 - 27))
    upper.add_row(
        _panel("Parking lot by type, every 2 s", lot_bars(picture, bar)),
        _panel("Hot rooms, every 2 s", hot_rooms(picture)),
    )
    changes = Group(*picture.changes) if picture.changes else Text("…", style="dim")
    title = f"Changes of {STREAM} ({format_count(picture.total_changes)} so far)"
    return Group(upper, _panel(title, changes), engine_text(picture.status), Text(footer, style="dim"))


def lot_bars(picture: Picture, longest: int) -> RenderableType:
    """A bar for each type of vehicle; beside it the count when the last police car came in."""
    lot, police = picture.answers.get("lot", []), dict(picture.answers.get("police", []))
    if not lot:
        return Text("empty", style="dim")
    most = max(vehicles for _, vehicles in lot)
    table = grid(None, "type", ">now", "", ">police")
    table.box, table.header_style = None, "dim"
    for kind, vehicles in lot:
        bar = "█" * max(1, round(longest * vehicles / most))
        table.add_row(
            clean(str(kind)), format_count(vehicles), Text(bar, style="cyan"), format_count(police.get(kind, 0))
        )
    recent = picture.answers.get("recent") or [(0,)]
    total = sum(vehicles for _, vehicles in lot)
    return Group(
        table, Text(f"{format_count(total)} inside, {format_count(recent[0][0])} came in the last 5 s", style="dim")
    )


def hot_rooms(picture: Picture) -> RenderableType:
    """The hottest rooms, and how many there are in each building."""
    hot = picture.answers.get("hot", [])
    table = grid(None, ">room", "building", ">degrees")
    table.box, table.header_style = None, "dim"
    for room, building, temperature in hot[:HOT_SHOWN]:
        table.add_row(str(room), clean(str(building)), Text(f"{temperature:.1f}", style="red"))
    found = picture.answers.get("buildings", [])
    buildings = "  ".join(f"{clean(str(name))} {format_count(rooms)}" for name, rooms, _ in found)
    return Group(table, Text(f"{format_count(len(hot))} above 80: {buildings}" if hot else "none", style="dim"))


def engine_text(status: dict[str, Any]) -> Text:
    """rows/s, clock, time of a micro-batch, state."""
    sources, state = status.get("sources") or [], status.get("state") or {}
    batch = status.get("last_batch") or {}
    rate = sum(source.get("rows_per_second") or 0 for source in sources)
    seconds = batch.get("batch_seconds")
    took = f" ({seconds:.2f} s)" if isinstance(seconds, (int, float)) else ""
    return Text(
        f"engine  {format_count(float(rate))} rows/s · clock {clock_text(status.get('clock'))[:19]}"
        f" · micro-batch {status.get('batch')}{took}"
        f" · state {format_count(state.get('rows') or 0)} rows, {format_size(state.get('bytes') or 0)}",
        style="bold",
        no_wrap=True,
        overflow="ellipsis",
    )


def print_plain(console: Console, picture: Picture) -> None:
    """The same as lines, for files and pipes."""
    console.print(engine_text(picture.status))
    inside = ", ".join(f"{clean(str(kind))} {format_count(n)}" for kind, n in picture.answers.get("lot", []))
    police = ", ".join(f"{clean(str(kind))} {format_count(n)}" for kind, n in picture.answers.get("police", []))
    console.print(Text(f"lot     {inside or 'empty'}"))
    console.print(Text(f"police  {police or 'no police car yet'}"))
    recent = picture.answers.get("recent") or [(0,)]
    console.print(Text(f"recent  {format_count(recent[0][0])} came in the last 5 s"))
    for building, rooms, hottest in picture.answers.get("buildings", []):
        console.print(Text(f"hot     {clean(str(building))}: {format_count(rooms)} rooms, up to {hottest:.1f} degrees"))
    for line in picture.changes:
        console.print(Text("change  ").append(line))
    picture.changes.clear()


def _panel(title: str, content: RenderableType) -> Panel:
    return Panel(content, title=title, title_align="left", box=box.ROUNDED, border_style="blue")


def _rows(table: pa.Table) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in python_rows(table)]
