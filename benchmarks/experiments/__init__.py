"""The experiments of the papers, repeated: `python -m benchmarks.experiments [phantoms|weaving|joins] [--quick]`."""
