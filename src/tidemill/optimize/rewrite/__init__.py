"""The rewrite rules, one a file."""
