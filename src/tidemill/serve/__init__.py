"""Clients of the engine: command line, shell, demo, doctor."""
