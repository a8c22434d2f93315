"""A reader in a process of its own: how much its memory grows over a share of a batch.

    python -m tests.share.reader_process ROOT FILE

`FILE` has two pickled assignments. The first loads kernels and libraries; what counts is how far the process grows
beyond that over the second. Messages are dropped as they come, as when they have been sent.
"""

from __future__ import annotations

import gc
import json
import pickle
import sys
from pathlib import Path

import pyarrow as pa

from tidemill.runtime.reader.reader import Reader


def status(name: str) -> int:
    """Bytes: VmRSS is what the process has, VmHWM the most it had since `forget_peak`."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(name))


def forget_peak() -> None:
    """The peak begins anew."""
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")


def main(root: str, file: str) -> None:
    """Print the growth, the bytes of all messages and of the largest one."""
    first, second = pickle.loads(Path(file).read_bytes())
    for _ in Reader(root, first).messages():
        pass
    gc.collect()
    pa.default_memory_pool().release_unused()
    before = status("VmRSS")
    forget_peak()
    sent = [len(payload) for _, _, payload in Reader(root, second).messages()]
    print(json.dumps({"grown": status("VmHWM") - before, "sent": sum(sent), "largest": max(sent)}))


if __name__ == "__main__":
    main(*sys.argv[1:])
