"""One benchmark in a process of its own, so that memory and JVMs of different benchmarks do not mix."""

from __future__ import annotations

import importlib
import json
import os
import time
import traceback
from pathlib import Path
from typing import Any

from benchmarks.report import machine

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs" / "benchmarks"


class Steps:
    """What a benchmark says of its progress: how many steps in all, one more done, what comes next."""

    def __init__(self, pipe: Any) -> None:
        self._pipe = pipe

    def expect(self, count: int) -> None:
        self._pipe.send(("expect", count))

    def done(self, what: str = "") -> None:
        self._pipe.send(("done", what))


def perform(pipe: Any, name: str, quick: bool, folder: str, options: dict[str, Any]) -> None:
    """Run one benchmark and draw its plots; everything is told through the pipe. `options` are those of its `run`."""
    places = [str(ROOT / "src"), str(ROOT), os.environ.get("PYTHONPATH")]
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, places))
    facts = machine()
    began = time.time()
    try:
        module = importlib.import_module(f"benchmarks.{name}")
        result = json.loads(json.dumps(module.run(quick, Steps(pipe), **options).to_dict()))
        pipe.send(
            (
                "result",
                {
                    **result,
                    "plots": module.draw(result["series"], folder),
                    "machine": facts,
                    "quick": quick,
                    "seconds": time.time() - began,
                },
            )
        )
    except BaseException:
        pipe.send(("failed", traceback.format_exc()))
    pipe.close()
