"""Runs SQL test files as streams and standing views, compares with DuckDB, and prints what was refused by reason."""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from pathlib import Path

from benchmarks.corpus.files import Limits, Tally, run_file
from benchmarks.corpus.streams import MODES, Mode

OWN = Path(__file__).with_name("files")


def main(arguments: list[str] | None = None) -> int:
    """0 where every answer is right."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.corpus", description=__doc__)
    parser.add_argument("paths", nargs="*", type=Path, default=[OWN], help="files or folders; those of the project")
    parser.add_argument("--mode", choices=[*MODES, "all"], default="all")
    parser.add_argument("--rows", type=int, default=5000, help="larger tables are left out")
    parser.add_argument("--queries", type=int, default=1000, help="most queries of a file")
    parser.add_argument("--show", type=int, default=0, help="examples of each reason")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin no file after this many seconds")
    parser.add_argument("--only-plan", action="store_true", help="make the views, and give them no rows")
    given = parser.parse_args(arguments)
    modes: tuple[Mode, ...] = MODES if given.mode == "all" else (given.mode,)
    tally = Tally()
    end = time.monotonic() + given.seconds
    for path in _files(given.paths):
        if time.monotonic() > end:
            print(f"not read, for lack of time: {path} and what follows", file=sys.stderr)
            break
        print(path, file=sys.stderr, flush=True)
        run_file(path, modes, tally, Limits(given.rows, given.queries, given.only_plan))
    print(report(tally, given.show))
    return int(any(o.kind in ("wrong", "failed") for found in tally.outcomes.values() for _, o in found))


def _files(paths: list[Path]) -> list[Path]:
    found: list[Path] = []
    for path in paths:
        found += sorted(path.rglob("*.test")) if path.is_dir() else [path]
    return found


def report(tally: Tally, examples: int = 0) -> str:
    """Counts by mode, then the reasons of everything that is not right, the most frequent first."""
    lines = [f"not compared: {n:6} {reason}" for reason, n in tally.unasked.most_common()]
    for mode, found in tally.outcomes.items():
        kinds = Counter(outcome.kind for _, outcome in found)
        ran = (kinds["right"] + kinds["planned"]) / max(1, len(found))
        counts = ", ".join(f"{kinds[k]} {k}" for k in ("right", "planned", "wrong", "refused", "failed") if kinds[k])
        lines.append(f"\n{mode}: {len(found)} queries, {counts} ({ran:.1%})")
        reasons = Counter((o.kind, o.reason) for _, o in found if o.kind not in ("right", "planned"))
        for (kind, reason), n in reasons.most_common():
            lines.append(f"{n:6} {kind}: {reason}")
            shown = [(p, o) for p, o in found if (o.kind, o.reason) == (kind, reason)][:examples]
            for path, o in shown:
                lines.append(f"         {path}:{o.line} {' '.join(o.sql.split())[:220]}\n           {o.detail[:220]}")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
