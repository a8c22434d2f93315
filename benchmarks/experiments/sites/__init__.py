"""Joins between sites: figures 7 to 10 and tables 2 and 3 of paper 001, by the models and counted."""
