"""Tokens to statements: the own statements by a cursor, queries by the dialect."""
