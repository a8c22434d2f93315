"""`tidemill demo`: generated streams, views on views, and their answers on the screen while they change."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.live import Live
from rich.spinner import Spinner
from rich.text import Text

from tidemill.errors import EngineProblem
from tidemill.interrupts import plain_interrupts
from tidemill.serve.demo_console import demo_console
from tidemill.serve.demo_screen import STREAM, Picture, print_plain, screen
from tidemill.serve.follow import check_alive
from tidemill.serve.opening import connect

if TYPE_CHECKING:
    from tidemill.engine import Database

SCRIPT = "parking_and_rooms.sql"
PLAIN_SECONDS = 20.0
PLAIN_EVERY = 2.0
FRAME = 0.5
PATIENCE = 120.0

Tell = Callable[[str], None]


def script_path(name: str = SCRIPT) -> Path:
    """The SQL of the demo: in the source tree, or where an installed package puts shared files."""
    places = (Path(__file__).parents[3] / "examples", Path(sys.prefix) / "share" / "tidemill" / "examples")
    for place in places:
        if (place / name).exists():
            return place / name
    raise EngineProblem(
        "TM502",
        f"{name} is not installed",
        detail=f"looked in {' and '.join(map(str, places))}",
        hint="run the demo from a copy of the source",
    )


def run_demo(console: Console, directory: str, seconds: float | None, plain: bool) -> None:
    """Open the database, start, show until the time is over or ctrl-C, close."""
    plain = plain or not console.is_terminal
    if plain and seconds is None:
        seconds = PLAIN_SECONDS
    script = script_path()
    console.print(Text(f"The SQL of this demo: {script}", style="dim"))
    with plain_interrupts():
        try:
            _run(console, directory, script.read_text(encoding="utf-8"), seconds, plain)
        except KeyboardInterrupt:
            console.print(Text("stopped", style="dim"))


def _run(console: Console, directory: str, text: str, seconds: float | None, plain: bool) -> None:
    db = None
    try:
        with show_progress(console, plain) as tell:
            tell("opening the database")
            db = connect(directory)
            tell("planning the views")
            db.execute(text)
            tell("starting Spark")
            db.start()
            tell("first micro-batch")
            with plain_interrupts():
                picture, subscription = wait_for_results(db)
        with plain_interrupts(), demo_console(db) as said:
            console.print(Text(said, style="bold"))
            show(console, db, picture, subscription, seconds, plain)
            check_alive(db)
    finally:
        if db is not None:
            db.close()


def wait_for_results(db: Database, patience: float = PATIENCE) -> tuple[Picture, object]:
    """Wait until the views have their first rows."""
    picture, subscription, end = Picture(), db.subscribe(STREAM), time.monotonic() + patience
    while True:
        picture.refresh(db, subscription)
        if picture.has_results:
            return picture, subscription
        check_alive(db)
        if time.monotonic() > end:
            raise EngineProblem("TM502", "the demo has no results", hint="tidemill doctor finds out what is missing")
        time.sleep(0.1)


def show(
    console: Console, db: Database, picture: Picture, subscription: object, seconds: float | None, plain: bool
) -> None:
    """Refresh the picture until the time is over or the job ends."""
    began = time.monotonic()

    def has_time_left() -> bool:
        return db.is_running and (seconds is None or time.monotonic() - began < seconds)

    if plain:
        while has_time_left():
            print_plain(console, picture)
            time.sleep(min(PLAIN_EVERY, seconds or PLAIN_EVERY))
            picture.refresh(db, subscription)
        print_plain(console, picture)
        return
    footer = f"{SCRIPT} · ctrl-C ends the demo"
    with Live(console=console, auto_refresh=False, vertical_overflow="crop") as live:
        while has_time_left():
            live.update(screen(picture, footer, console.width), refresh=True)
            time.sleep(FRAME)
            picture.refresh(db, subscription)


@contextmanager
def show_progress(console: Console, plain: bool) -> Iterator[Tell]:
    """Yields a function that prints the current step: in a spinner with the elapsed time, or as lines."""
    began = time.monotonic()
    if plain:
        yield lambda text: console.print(Text(f"{time.monotonic() - began:5.1f} s  {text} …", style="dim"))
        return
    waiting = Waiting(began)
    with Live(waiting, console=console, transient=True, refresh_per_second=10):
        yield waiting.tell


class Waiting:
    """A spinner that shows the current step and the elapsed time."""

    def __init__(self, began: float) -> None:
        self.began = began
        self.spinner = Spinner("dots")
        self.text = ""

    def tell(self, text: str) -> None:
        self.text = text

    def __rich__(self) -> Spinner:
        self.spinner.update(text=Text(f"{self.text} … {time.monotonic() - self.began:.0f} s"))
        return self.spinner
