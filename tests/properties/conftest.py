"""Registers the profile before hypothesis looks for it."""

from tests.properties import effort

__all__ = ["effort"]
