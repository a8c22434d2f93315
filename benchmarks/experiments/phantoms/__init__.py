"""Phantoms: the figures of paper 002, section 8."""
