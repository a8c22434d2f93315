"""Weaving: figures 10 to 13 of paper 003, and the time of planning."""
