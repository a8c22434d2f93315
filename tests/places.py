"""Where the project is, and what another process needs to import it and its tests."""

from __future__ import annotations

import os
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src"
IMPORTS = os.pathsep.join(map(str, (SOURCE, ROOT)))  # PYTHONPATH of a process that a test starts
