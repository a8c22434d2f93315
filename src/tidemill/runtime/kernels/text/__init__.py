"""Kernels that find and check records of text."""
