"""Compiles the kernels of a plan before it runs, where it runs on this machine."""

from __future__ import annotations

from typing import Any

from tidemill.plan.physical import Physical
from tidemill.runtime.kernels.compiling.cache import Compilation, compile_missing
from tidemill.runtime.kernels.compiling.needed import groups_of


def compile_for(plan: Physical, spark: Any) -> Compilation:
    """Begin to compile what a plan needs and this machine does not have yet; workers elsewhere compile for themselves.

    `spark` is None before there is a session: it will be a local one.
    """
    local = spark is None or str(spark.sparkContext.master).startswith("local")
    return compile_missing(groups_of(plan) if local else ())
