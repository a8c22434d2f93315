"""Kernels that decode pages of Parquet files."""
