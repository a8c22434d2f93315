"""Writes what the bundle was made from: python console/stamp.py. A test compares it with the sources."""

from __future__ import annotations

import hashlib
from pathlib import Path

HERE = Path(__file__).parent
STAMP = HERE.parent / "src" / "tidemill" / "serve" / "http" / "static" / "made-from.txt"
BUILT = ("console.js", "console.css")


def digest() -> str:
    """A hash of everything that the bundle depends on, and of the bundle."""
    sources = [HERE / "package.json", HERE / "package-lock.json", *sorted((HERE / "src").iterdir())]
    found = hashlib.sha256()
    for path in (*sources, *(STAMP.parent / name for name in BUILT)):
        found.update(f"{path.name}\n".encode() + path.read_bytes())
    return found.hexdigest()


if __name__ == "__main__":
    STAMP.write_text(digest() + "\n", encoding="utf-8")
