"""The experiments of the papers, repeated: `python -m experiments [phantoms|weaving|joins] [--quick]`."""
