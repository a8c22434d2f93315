"""Phantoms (paper 002): finer aggregates inside the reader that feed many group-bys, under a memory budget."""
