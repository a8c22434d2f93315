"""Connectors, one folder for each kind of source."""
