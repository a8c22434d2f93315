"""What the names of files tell: where they lie, and how they are compressed. Nothing is opened here."""

from __future__ import annotations

import glob
import os

_PACKED = {".gz": "gzip", ".gzip": "gzip", ".zst": "zstd", ".zstd": "zstd"}


def base_directory(pattern: str) -> str:
    """The directory no matched file may leave.

    >>> base_directory("/data/in/2024-*/x.csv"), base_directory("/data/in/a.csv")
    ('/data/in', '/data/in')
    """
    parts = pattern.split(os.sep)
    fixed = next((i for i, part in enumerate(parts) if glob.has_magic(part)), len(parts) - 1)
    return os.sep.join(parts[:fixed]) or os.sep


def packing(path: str) -> str | None:
    """How the name says that a file is compressed.

    >>> packing("/in/a.csv.gz"), packing("/in/a.JSON.ZST"), packing("/in/a.csv")
    ('gzip', 'zstd', None)
    """
    return _PACKED.get(os.path.splitext(path)[1].lower())


def inner_name(path: str) -> str:
    """The name without the suffix of a compression.

    >>> inner_name("/in/a.csv.gz"), inner_name("/in/a.csv")
    ('/in/a.csv', '/in/a.csv')
    """
    return os.path.splitext(path)[0] if packing(path) else path
