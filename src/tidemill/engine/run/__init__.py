"""Runs the plan of a database: publish plan versions, start the one job, watch it, learn from its batches, stop it."""
