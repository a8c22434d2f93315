"""Kernels that name their types: one compilation, when the function is called first.

numba compiles a function with a named signature when it is defined, so that an import takes seconds on a machine that
has no machine code yet. Here it waits for the first call; a plan compiles what it uses and nothing else.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import Any

from numba import njit
from numba.core.dispatcher import Dispatcher

_ONE_AT_A_TIME = threading.RLock()


def compiled(signature: Any) -> Callable[[Callable[..., Any]], Dispatcher]:
    """A kernel for arguments of this signature; others raise TypeError. Its machine code is kept."""

    def decorate(function: Callable[..., Any]) -> Dispatcher:
        kernel: Any = njit(cache=True, nogil=True)(function)
        kernel._compile_for_args = partial(_first_call, kernel, signature)
        return kernel

    return decorate


def prepare(kernel: Dispatcher) -> None:
    """Load or compile a kernel that names its types, before it is called."""
    first = vars(kernel).get("_compile_for_args")
    if first is not None:
        _compile(kernel, first.args[1])


def _first_call(kernel: Dispatcher, signature: Any, *arguments: Any, **named: Any) -> Dispatcher:
    """What numba shall call with these arguments: the kernel, which now has its one compilation."""
    _compile(kernel, signature)
    return kernel


def _compile(kernel: Any, signature: Any) -> None:
    with _ONE_AT_A_TIME:
        if "_compile_for_args" in vars(kernel):
            kernel.compile(signature)
            kernel.disable_compile()
            del kernel._compile_for_args
