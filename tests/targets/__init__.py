"""Sinks to databases and lakes, with the real thing on the other side."""
