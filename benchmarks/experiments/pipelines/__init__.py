"""Pipelines over keyed streams: figures 10(b) and 12 to 15 of paper 004, predicted and counted."""
