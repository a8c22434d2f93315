"""Bytes at addresses, for kernels that walk through text. The caller has checked the bounds.

The machine code of a kernel that uses these is kept with the kernel: after a change here, change its file too.
"""

from __future__ import annotations

from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic


def _loading(bits: int):
    @intrinsic
    def load(typingctx, address):
        """The bytes at an address, wherever it is."""

        def generate(context, builder, signature, arguments):
            word = builder.load(builder.inttoptr(arguments[0], ir.IntType(bits).as_pointer()))
            word.align = 1
            return word if bits == 64 else builder.zext(word, ir.IntType(64))

        return types.int64(types.int64), generate

    return load


def _storing(bits: int):
    @intrinsic
    def store(typingctx, address, word):
        """Write the low bytes of a number at an address, wherever it is."""

        def generate(context, builder, signature, arguments):
            kind = ir.IntType(bits)
            word = arguments[1] if bits == 64 else builder.trunc(arguments[1], kind)
            builder.store(word, builder.inttoptr(arguments[0], kind.as_pointer())).align = 1
            return context.get_dummy_value()

        return types.void(types.int64, types.int64), generate

    return store


get_byte, get_word, put_byte, put_word = _loading(8), _loading(64), _storing(8), _storing(64)


@njit(nogil=True)
def copy_bytes(source, target, size):
    """Copy bytes between addresses that do not overlap; the address behind them."""
    k = 0
    while k + 8 <= size:
        put_word(target + k, get_word(source + k))
        k += 8
    while k < size:
        put_byte(target + k, get_byte(source + k))
        k += 1
    return target + size
