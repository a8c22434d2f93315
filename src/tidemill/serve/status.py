"""`tidemill status`: the state and progress of a database. Other commands print parts of it too."""

from __future__ import annotations

import datetime as dt
import json
import time
from collections.abc import Callable
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from tidemill.interrupts import plain_interrupts
from tidemill.plan.value_text import clean, moment, plain
from tidemill.serve.render import format_count, format_length, format_size, grid
from tidemill.serve.sites import sites_tables

REFRESH = 1.0
LONG = 2.0  # seconds from which a running micro-batch is shown


def clock_text(value: Any) -> str:
    """A time of the engine: microseconds since 1970, text, or nothing yet.

    >>> clock_text(None), clock_text(1_500_000), clock_text("1970-01-01 00:00:01.500000")
    ('–', '1970-01-01 00:00:01.5', '1970-01-01 00:00:01.5')
    """
    if value is None:
        return "–"
    if isinstance(value, int):
        try:
            value = dt.datetime(1970, 1, 1) + dt.timedelta(microseconds=value)
        except OverflowError:
            return "–"
    text = moment(value) if isinstance(value, dt.datetime) else plain(value)
    return text.rstrip("0").rstrip(".") if "." in text else text


def status_view(status: dict[str, Any]) -> Group:
    """All of `Database.status`, as tables."""
    parts = [engine_line(status), sources_table(status), views_table(status), *sites_tables(status)]
    parts += problem_lines(status)
    return Group(*parts, *([plans_table(status)] if status.get("plan_changes") else []))


def engine_line(status: dict[str, Any]) -> Text:
    """running · batch 12 · clock … · state 1,234 rows (1.2 MB)"""
    state = status.get("state") or {}
    running = bool(status.get("running"))
    line = Text("running" if running else "stopped", style="bold green" if running else "bold yellow")
    batch = status.get("batch", -1)
    batches = f"batch {plain(batch)}" if batch >= 0 else "no batch yet"
    line.append(f" · {batches} · plan {plain(status.get('plan'))}", style="not bold default")
    line.append(f" · clock {clock_text(status.get('clock'))}", style="not bold default")
    current = status.get("current_batch")
    if current and current["seconds"] >= LONG:
        late = f" with plan {current['plan']}" if current["plan"] != status.get("plan") else ""
        line.append(
            f" · at batch {current['batch']}{late} for {format_length(current['seconds'])}", style="not bold yellow"
        )
    line.append(
        f" · state {format_count(state.get('rows') or 0)} rows ({format_size(state.get('bytes') or 0)})",
        style="not bold default",
    )
    return line


def sources_table(status: dict[str, Any]) -> Any:
    """One line for each source: rows, rows/s, lag, late and bad records."""
    table = grid("Sources", "name", "kind", ">rows", ">rows/s", ">lag", "frontier", ">late", ">bad", "")
    for source in status.get("sources") or []:
        lag = source.get("lag_seconds")
        table.add_row(
            clean(source["name"]),
            plain(source.get("kind")),
            format_count(source.get("rows") or 0),
            format_count(source.get("rows_per_second") or 0),
            "–" if lag is None else format_length(lag),
            clock_text(source.get("frontier")),
            _warning(source.get("late")),
            _warning(source.get("bad")),
            " · ".join(filter(None, remarks_on_source(source))),
        )
    return table if table.row_count else Text("no sources", style="dim")


def remarks_on_source(source: dict[str, Any]) -> list[str]:
    """
    >>> remarks_on_source({"idle": True, "shed": 1200})
    ['idle', '1,200 shed', '', '']
    >>> remarks_on_source({"slot_lag_bytes": 5_000_000})[-1], remarks_on_source({"slot_lag_bytes": None})[-1]
    ('5.0 MB of log wait', 'lag of the slot unknown')
    """
    shed = source.get("shed")
    return [
        "idle" if source.get("idle") else "",
        f"{shed:,} shed" if shed else "",
        senders_text(source.get("senders")),
        slot_text(source),
    ]


def slot_text(source: dict[str, Any]) -> str:
    """What PostgreSQL keeps of its log for a source over one of its tables."""
    if "slot_lag_bytes" not in source:
        return ""
    lag = source["slot_lag_bytes"]
    return "lag of the slot unknown" if lag is None else f"{format_size(lag)} of log wait"


def senders_text(senders: dict[str, int] | None) -> str:
    """
    >>> senders_text({"connections": 3, "refused": 2, "silent": 0, "unfinished": 1})
    '3 senders, 2 refused, 1 unfinished'
    """
    if not senders:
        return ""
    others = [f"{format_count(n)} {what}" for what, n in senders.items() if what != "connections" and n]
    return ", ".join([f"{format_count(senders['connections'])} senders", *others])


def views_table(status: dict[str, Any]) -> Any:
    """One line for each view and standing query."""
    table = grid("Views", "name", "output", ">rows", "frontier")
    for view in status.get("views") or []:
        rows = view.get("rows")
        table.add_row(
            clean(view["name"]),
            plain(view.get("output")),
            "–" if rows is None else format_count(rows),
            clock_text(view.get("frontier")),
        )
    return table if table.row_count else Text("no views", style="dim")


def problem_lines(status: dict[str, Any]) -> list[Text]:
    """A line for each source whose clock is ahead, each view that has stopped, each sink that is behind, and each
    problem of the input.
    """
    ahead = [
        f"the clock of source {s['name']} is {format_length(s['ahead_seconds'])} ahead of the wall clock: rows before"
        " that are late"
        for s in status.get("sources") or []
        if s.get("ahead_seconds")
    ]
    stopped = [f"view {v['name']} has stopped: {v['stopped']}" for v in status.get("views") or [] if v.get("stopped")]
    behind = [
        f"sink {s['name']} is {format_count(s['undelivered'])} files behind: {s['problem']}"
        for s in status.get("sinks") or []
        if s.get("problem")
    ]
    return [Text(clean(line), style="yellow") for line in (*ahead, *stopped, *behind, *input_lines(status))]


def input_lines(status: dict[str, Any]) -> list[str]:
    """Files that cannot be read at all, fields that are not declared, dead letters that were dropped."""
    lines = []
    for source in status.get("sources") or []:
        lines += [f"source {source['name']}: file {text}" for text in source.get("files") or ()]
        if fields := source.get("undeclared"):
            often = sorted(fields.items(), key=lambda item: (-item[1], item[0]))
            named = ", ".join(f"{field} ({format_count(n)})" for field, n in often)
            lines.append(f"source {source['name']}: no column is declared for {named}")
    if dropped := status.get("dead_letters_dropped"):
        lines.append(
            f"{format_count(dropped)} dead letters were dropped, the oldest: SET dead_letter_rows, dead_letter_bytes"
        )
    return lines


def plans_table(status: dict[str, Any]) -> Any:
    """One line for each of the last changes of plan."""
    table = grid("Changes of plan", "at", ">batch", "what", "why", "to", ">predicted", ">measured")
    for change in status.get("plan_changes") or []:
        table.add_row(
            clock_text(change["at"]),
            format_count(change["batch"]),
            clean(f"{change['kind']} {change['name']}"),
            clean(change["reason"]),
            clean(change["after"] or "–"),
            _from_to(change["predicted_before"], change["predicted_after"]),
            _from_to(change["measured_before"], change["measured_after"]),
        )
    return table


def _from_to(before: float | None, after: float | None) -> str:
    """
    >>> _from_to(None, 1.25), _from_to(3_000_000.0, 12.0)
    ('– → 1.25', '3e+06 → 12')
    """
    return " → ".join("–" if x is None else f"{x:.4g}" for x in (before, after))


def show_status(console: Console, read: Callable[[], dict[str, Any]], as_json: bool, watch: bool) -> None:
    """Print the status once, or again every second until ctrl-C."""
    if as_json:
        _print_json(console, read, watch)
    elif watch and console.is_terminal:
        with plain_interrupts(), Live(status_view(read()), console=console, auto_refresh=False) as live:
            _repeat(lambda: live.update(status_view(read()), refresh=True))
    elif watch:
        with plain_interrupts():
            _repeat(lambda: console.print(status_view(read())))
    else:
        console.print(status_view(read()))


def _print_json(console: Console, read: Callable[[], dict[str, Any]], watch: bool) -> None:
    def write() -> None:
        console.file.write(json.dumps(read(), default=str, indent=None if watch else 2) + "\n")
        console.file.flush()

    if watch:
        with plain_interrupts():
            _repeat(write)
    else:
        write()


def _repeat(action: Callable[[], Any]) -> None:
    try:
        while True:
            action()
            time.sleep(REFRESH)
    except KeyboardInterrupt:
        pass


def _warning(number: int | None) -> Text:
    return Text(format_count(number or 0), style="yellow" if number else "")
