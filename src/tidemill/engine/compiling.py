"""Kernels of a plan are compiled before it runs, where this machine is the one that runs it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tidemill.plan.physical import Physical
from tidemill.runtime.kernels.kept import Compilation, compile_missing, kept
from tidemill.runtime.kernels.needed import SECONDS, needed


def compile_for(plan: Callable[[], Physical], spark: Any) -> Compilation:
    """Begin to compile what a plan needs and this machine does not have yet; workers elsewhere compile for themselves.

    `spark` is None before there is a session: it will be a local one.
    """
    if len(kept()) == len(SECONDS):
        return compile_missing(())
    local = spark is None or str(spark.sparkContext.master).startswith("local")
    return compile_missing(needed(plan()) if local else ())
