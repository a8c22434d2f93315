"""`python -m tests.newcomer [FOLDER]`: install the wheel in a new environment and walk through the documentation."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

from tests.places import ROOT

PAGES = ("README.md", "docs/start.md", "docs/recipes.md", "docs/python.md")


def main(folder: Path) -> int:
    """The number of examples that did not do what the page says."""
    made = folder / "dist"
    say("building the wheel")
    subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", str(made), str(ROOT)], check=True
    )
    say("making an environment and installing it")
    venv.create(folder / "env", with_pip=True)
    python = folder / "env" / "bin" / "python"
    subprocess.run([python, "-m", "pip", "install", "--quiet", *map(str, made.glob("*.whl"))], check=True)
    work = folder / "work"
    work.mkdir()
    here = Path(__file__).with_name("walk.py")
    outside = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    say("walking through the pages")
    pages = [str(ROOT / page) for page in PAGES]
    return subprocess.run([python, str(here), *pages], cwd=work, env=outside, check=False).returncode


def say(text: str) -> None:
    print(f"… {text}", flush=True)


if __name__ == "__main__":
    given = Path(sys.argv[1]).absolute() if len(sys.argv) > 1 else None
    if given is not None:
        given.mkdir(parents=True)
        sys.exit(main(given))
    with tempfile.TemporaryDirectory(prefix="newcomer-") as place:
        sys.exit(main(Path(place)))
