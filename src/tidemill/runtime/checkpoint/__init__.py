"""Spark's checkpoint: which batches were logged and committed, their offsets, and the folder it is in."""
