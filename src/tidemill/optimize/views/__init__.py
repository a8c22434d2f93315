"""Queries answered from views that already run: matching, costs, shared pipelines."""
