"""`python -m benchmarks.peers --flink`: make the environment in which Flink runs."""

from __future__ import annotations

from typing import Annotated

import typer

from benchmarks.flink import VARIABLE, VERSION, install, python


def main(flink: Annotated[bool, typer.Option(help=f"install Flink {VERSION}, about 0.9 GB")] = False) -> None:
    """Say which Flink the benchmark finds."""
    if flink:
        install()
    found = python()
    typer.echo(found or f"Flink is not installed; use --flink, or name a Python that has it in {VARIABLE}")


if __name__ == "__main__":
    typer.run(main)
