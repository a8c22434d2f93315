"""A new user's first hour: the wheel in a new environment, then README, first steps and recipes as they are written.

`python -m tests.newcomer` takes some minutes; it is not part of `make test`, which executes the same pages in process.
"""
